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

func notes(t *testing.T, s *sqlitestore.Store, run event.RunID) map[string]string {
	t.Helper()
	got, err := s.Notes(testContext(t), run)
	check(t, err)
	texts := map[string]string{}
	for key, body := range got {
		texts[key] = string(body)
	}
	return texts
}

func TestNotes_AreReplacedAndSurviveOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openStore(t, path, nil)
	run := start(t, s, 1)[0].Run
	other := start(t, s, 1)[0].Run
	openSession(t, s, "a")
	fence := claim(t, s, "a", 1)[0].Fence
	for _, note := range [][2]string{{"charge", "1"}, {"ship", "1"}, {"charge", "2"}} {
		check(t, s.SetNote(testContext(t), run, fence, note[0], []byte(note[1]), false))
	}
	check(t, s.Close())
	s = openStore(t, path, nil)
	if diff := cmp.Diff(map[string]string{"charge": "2", "ship": "1"}, notes(t, s, run)); diff != "" {
		t.Errorf("notes (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{}, notes(t, s, other)); diff != "" {
		t.Errorf("notes of another run (-want +got)\n%s", diff)
	}
}

func TestSetNote_IsFenced(t *testing.T) {
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
		if err := s.SetNote(testContext(t), test.run, test.fence, "charge", []byte("1"), false); !errors.Is(err, store.ErrFenced) {
			t.Errorf("%s: got error %v, want that the claim is lost", what, err)
		}
	}
	if diff := cmp.Diff(map[string]string{}, notes(t, s, run)); diff != "" {
		t.Errorf("notes (-want +got)\n%s", diff)
	}
}

func TestNotes_EndWithTheRun(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	l := start(t, s, 1)[0]
	openSession(t, s, "a")
	fence := claim(t, s, "a", 1)[0].Fence
	check(t, s.SetNote(testContext(t), l.Run, fence, "charge", []byte("1"), false))
	c := l.Commit(fence, l.End(event.StatusCompleted)...)
	c.Effect, c.Status = store.EffectFinish, event.StatusCompleted
	got, err := s.Commit(testContext(t), []store.Commit{c})
	check(t, err)
	check(t, got[0].Err)
	if diff := cmp.Diff(map[string]string{}, notes(t, s, l.Run)); diff != "" {
		t.Errorf("notes (-want +got)\n%s", diff)
	}
	if _, err := s.Notes(testContext(t), newLog(s.Clock()).Run); !errors.Is(err, store.ErrRunNotFound) {
		t.Errorf("notes of a run that does not exist: got error %v, want that it is not found", err)
	}
}
