package sqlitestore_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore"
)

func stepData(t *testing.T, s *sqlitestore.Store, run event.RunID) map[string]string {
	t.Helper()
	got, err := s.StepData(testContext(t), run)
	check(t, err)
	texts := map[string]string{}
	for key, body := range got {
		texts[key] = string(body)
	}
	return texts
}

func TestStepData_IsReplacedAndSurvivesOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openStore(t, path, nil)
	run := start(t, s, 1)[0].Run
	other := start(t, s, 1)[0].Run
	openSession(t, s, "a")
	fence := claim(t, s, "a", 1)[0].Fence
	for _, data := range [][2]string{{"charge", "1"}, {"ship", "1"}, {"charge", "2"}} {
		check(t, s.SetStepData(testContext(t), run, fence, data[0], []byte(data[1]), false))
	}
	check(t, s.Close())
	s = openStore(t, path, nil)
	if diff := cmp.Diff(map[string]string{"charge": "2", "ship": "1"}, stepData(t, s, run)); diff != "" {
		t.Errorf("step data (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{}, stepData(t, s, other)); diff != "" {
		t.Errorf("step data of another run (-want +got)\n%s", diff)
	}
}

func TestSetStepData_IsFenced(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	run := start(t, s, 1)[0].Run
	openSession(t, s, "a")
	fence := claim(t, s, "a", 1)[0].Fence
	for what, test := range map[string]struct {
		run   event.RunID
		fence store.Fence
	}{
		"other token": {run, store.Fence{Epoch: fence.Epoch, Token: event.NewToken()}},
		"other epoch": {run, store.Fence{Epoch: fence.Epoch + 1, Token: fence.Token}},
		"no such run": {newLog(s.Clock()).Run, fence},
	} {
		if err := s.SetStepData(testContext(t), test.run, test.fence, "charge", []byte("1"), false); !errors.Is(err, store.ErrFenced) {
			t.Errorf("%s: got error %v, want that the claim is lost", what, err)
		}
	}
	if diff := cmp.Diff(map[string]string{}, stepData(t, s, run)); diff != "" {
		t.Errorf("step data (-want +got)\n%s", diff)
	}
}

func TestStepData_EndsWithTheRun(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	l := start(t, s, 1)[0]
	openSession(t, s, "a")
	fence := claim(t, s, "a", 1)[0].Fence
	check(t, s.SetStepData(testContext(t), l.Run, fence, "charge", []byte("1"), false))
	c := l.Commit(fence, l.End(event.StatusCompleted)...)
	c.Effect, c.Status = store.EffectFinish, event.StatusCompleted
	got, err := s.Commit(testContext(t), []store.Commit{c})
	check(t, err)
	check(t, got[0].Err)
	if diff := cmp.Diff(map[string]string{}, stepData(t, s, l.Run)); diff != "" {
		t.Errorf("step data (-want +got)\n%s", diff)
	}
	if _, err := s.StepData(testContext(t), newLog(s.Clock()).Run); !errors.Is(err, store.ErrRunNotFound) {
		t.Errorf("step data of a run that does not exist: got error %v, want that it is not found", err)
	}
}
