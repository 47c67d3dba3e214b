package deploy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/deploy"
	"github.com/flowgen/flowgen/runtime/store"
)

// entries returns the entries of a new store.
func entries(t *testing.T) store.Entries {
	t.Helper()
	st := memstore.New()
	t.Cleanup(func() { _ = st.Close() })
	e, ok := store.As[store.Entries](st)
	if !ok {
		t.Fatal("memstore keeps no entries")
	}
	return e
}

func day(n int) time.Time { return time.Date(2026, 11, n, 12, 0, 0, 0, time.UTC) }

func TestOPS10_Update_LosesNoChangeOfConcurrentWriters(t *testing.T) {
	e, writers, each := entries(t), 8, 5
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for range each {
				if _, err := deploy.Update(t.Context(), e, func(s *deploy.State) error {
					s.Add(fmt.Sprint("b", w)).Percent++
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	s, err := deploy.Load(t.Context(), e)
	if err != nil || len(s.Builds) != writers {
		t.Fatalf("got %d builds, %v, want %d", len(s.Builds), err, writers)
	}
	for _, b := range s.Builds {
		if b.Percent != each {
			t.Errorf("build %s was changed %d times, want %d", b.ID, b.Percent, each)
		}
	}
}

func TestOPS10_Update_WritesNothingAfterAnErrorOrWithoutAChange(t *testing.T) {
	e, refused := &counted{keeper: entries(t)}, errors.New("refused")
	if _, err := deploy.Update(t.Context(), e, func(s *deploy.State) error { s.Add("a"); return refused }); !errors.Is(err, refused) {
		t.Errorf("got %v, want the error of the function", err)
	}
	for range 2 {
		if _, err := deploy.Update(t.Context(), e, func(s *deploy.State) error { s.Add("a").To = "b"; return nil }); err != nil {
			t.Error(err)
		}
	}
	if e.writes != 1 {
		t.Errorf("got %d writes, want 1", e.writes)
	}
}

// keeper is the embedded store of the types below, which have a method of the name of the interface.
type keeper = store.Entries

// counted counts the writes of entries.
type counted struct {
	keeper
	writes int
}

func (c *counted) WriteEntry(ctx context.Context, w store.EntryWrite) error {
	c.writes++
	return c.keeper.WriteEntry(ctx, w)
}

// fsck finds and removes the record that Load cannot read, and no other one.
func TestOPS10_Load_ReportsADamagedRecord(t *testing.T) {
	for value, damaged := range map[string]bool{
		`{"builds":7}`: true, `[]`: true, `{"builds":[`: true, `{"builds":[{"id":7}]}`: true, `{"builds":[{"id":"a","percent":"5"}]}`: true,
		`{"builds":[{"id":"a","percent":1.5}]}`: true, `{"builds":[{"id":"a","first":"yesterday"}]}`: true, `{"builds":[{"id":"a","last":0}]}`: true,
		`{"builds":[{"id":"a","retired":true}]}`: true, `{"builds":[{"id":"a","to":{}}]}`: true,
		`{}`: false, `{"builds":null,"newer":1}`: false,
		`{"builds":[{"id":"a","first":"2026-11-01T12:00:00Z","last":"2026-11-01T12:00:00Z","percent":100,"retired":"2026-11-01T12:00:00Z","to":"b"}]}`: false,
	} {
		e := entries(t)
		entry := store.Entry{Space: store.DeploySpace, Key: "record", Value: []byte(value)}
		if err := e.WriteEntry(t.Context(), store.EntryWrite{Entry: entry}); err != nil {
			t.Fatal(err)
		}
		if err := entry.Damage(); (err != nil) != damaged {
			t.Errorf("%s: fsck finds %v, want damage %t", value, err, damaged)
		}
		if s, err := deploy.Load(t.Context(), e); (err != nil) != damaged || damaged && !strings.Contains(err.Error(), "flowctl fsck --repair") {
			t.Errorf("%s: got %+v, %v, want an error that names the repair: %t", value, s, err, damaged)
		}
		if _, err := deploy.Update(t.Context(), e, func(s *deploy.State) error { s.Add("a"); return nil }); (err != nil) != damaged {
			t.Errorf("%s: Update returned %v; want an error if it cannot read the record: %t", value, err, damaged)
		}
	}
}

func TestOPS10_Update_RemovesTheBuildsSeenLeastRecentlyWithoutAShare(t *testing.T) {
	s, err := deploy.Update(t.Context(), entries(t), func(s *deploy.State) error {
		for i := range deploy.MaxBuilds + 3 {
			b := s.Add(fmt.Sprint("b", i))
			b.First, b.Last = day(1).Add(time.Duration(i)*time.Hour), day(1).Add(time.Duration(i)*time.Hour)
		}
		s.Build("b1").Percent = 100
		return nil
	})
	if err != nil || len(s.Builds) != deploy.MaxBuilds {
		t.Fatalf("got %d builds, %v, want %d", len(s.Builds), err, deploy.MaxBuilds)
	}
	got := []string{s.Builds[0].ID, s.Builds[1].ID, s.Builds[len(s.Builds)-1].ID}
	if diff := cmp.Diff([]string{"b1", "b4", "b102"}, got); diff != "" {
		t.Errorf("first two and last build (-want +got):\n%s", diff)
	}
}

// More builds than a record may contain have a share, because the record was written by other means.
func TestOPS10_Seen_KeepsTheSharesOfARecordThatIsTooLong(t *testing.T) {
	e := entries(t)
	var s deploy.State
	for i := range deploy.MaxBuilds + 2 {
		s.Add(fmt.Sprint("b", i)).Percent = 1
	}
	value, err := json.Marshal(&s)
	if err == nil {
		err = e.WriteEntry(t.Context(), store.EntryWrite{Entry: store.Entry{Space: store.DeploySpace, Key: "record", Value: value}})
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := deploy.Seen(t.Context(), e, "b7")
	if err != nil || len(got.Builds) != len(s.Builds) {
		t.Errorf("got %d builds, %v, want %d", len(got.Builds), err, len(s.Builds))
	}
}

func TestOPS10_Seen_WritesAtMostOnceInAnInterval(t *testing.T) {
	now := day(1)
	e := &counted{keeper: clocked{entries(t), func() time.Time { return now }}}
	for _, after := range []time.Duration{0, time.Minute, deploy.SeenEvery - time.Second, deploy.SeenEvery, deploy.SeenEvery + time.Minute} {
		now = day(1).Add(after)
		if _, err := deploy.Seen(t.Context(), e, "a"); err != nil {
			t.Fatal(err)
		}
	}
	s, err := deploy.Load(t.Context(), e)
	want := []deploy.Build{{ID: "a", First: day(1), Last: day(1).Add(deploy.SeenEvery)}}
	if diff := cmp.Diff(want, s.Builds); diff != "" || err != nil || e.writes != 2 {
		t.Errorf("%d writes, want 2; error %v (-want +got):\n%s", e.writes, err, diff)
	}
}

// clocked has the clock of a test.
type clocked struct {
	keeper
	now func() time.Time
}

func (c clocked) Clock() store.Clock { return clock{c.keeper.Clock(), c.now} }

type clock struct {
	store.Clock
	now func() time.Time
}

func (c clock) Now() time.Time { return c.now() }

func TestOPS10_Draw_FollowsTheShares(t *testing.T) {
	s := deploy.State{Builds: []deploy.Build{{ID: "other"}, {ID: "old", Percent: 95}, {ID: "new", Percent: 5}}}
	const runs = 20_000
	got := map[string]int{}
	for i := range runs {
		got[s.Draw(event.RunID(fmt.Sprintf("wrun_%026d", i)), []string{"new", "old", "other"}, "other")]++
	}
	if share := float64(got["new"]) / runs; math.Abs(share-0.05) > 0.01 || got["other"] != 0 || got["old"]+got["new"] != runs {
		t.Errorf("got %v, want 5 %% on new and all others on old", got)
	}
}

func TestOPS10_Draw_ReplacesABuildThatCannotReceiveRuns(t *testing.T) {
	builds := []deploy.Build{{ID: "a", First: day(1)}, {ID: "b", First: day(3)}, {ID: "c", First: day(2)}}
	set := func(change func(s *deploy.State)) *deploy.State {
		s := &deploy.State{Builds: slices.Clone(builds)}
		change(s)
		return s
	}
	plain := set(func(*deploy.State) {})
	retired := set(func(s *deploy.State) { s.Build("b").Retired = day(4) })
	ramped := set(func(s *deploy.State) { s.Build("a").Percent, s.Build("b").Percent = 50, 50 })
	full := set(func(s *deploy.State) { s.Build("a").Percent = 100 })
	tests := map[string]struct {
		state *deploy.State
		live  []string
		own   string
		want  []string
	}{
		"nothing lives":                         {plain, nil, "", []string{""}},
		"the own build first":                   {plain, []string{"a", "b"}, "a", []string{"a"}},
		"the newest live build":                 {plain, []string{"c", "b", "a"}, "", []string{"b"}},
		"an unregistered build is the oldest":   {plain, []string{"x", "a"}, "", []string{"a"}},
		"an unregistered build alone":           {plain, []string{"x"}, "", []string{"x"}},
		"no retired build":                      {retired, []string{"a", "b", "c"}, "b", []string{"c"}},
		"only a retired build lives":            {retired, []string{"b"}, "b", []string{""}},
		"shares":                                {ramped, []string{"a", "b", "c"}, "c", []string{"a", "b"}},
		"a share of a dead build":               {ramped, []string{"b", "c"}, "c", []string{"b"}},
		"all builds with a share are dead":      {full, []string{"b", "c"}, "c", []string{"c"}},
		"all with a share are dead, no own one": {full, []string{"b", "c"}, "", []string{"b"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string]bool{}
			for i := range 200 {
				run := event.RunID(fmt.Sprintf("wrun_%026d", i))
				id := tt.state.Draw(run, tt.live, tt.own)
				if id != tt.state.Draw(run, tt.live, tt.own) {
					t.Errorf("two draws of run %s differ", run)
				}
				got[id] = true
			}
			for _, id := range tt.want {
				if !got[id] || len(got) != len(tt.want) {
					t.Errorf("got %v, want %q", got, tt.want)
				}
			}
		})
	}
}

func TestOPS10_CheckID_RefusesOtherCharactersAndLengths(t *testing.T) {
	for _, good := range []string{"a", "v1.2.3-rc1+7_x", strings.Repeat("Z", deploy.MaxID)} {
		if err := deploy.CheckID(good); err != nil {
			t.Errorf("%q: got %v, want no error", good, err)
		}
	}
	for _, bad := range []string{"", "a b", "a@b", "ä", "a\n", strings.Repeat("Z", deploy.MaxID+1)} {
		if err := deploy.CheckID(bad); !errors.As(err, new(*store.InvalidError)) {
			t.Errorf("%q: got %v, want a *store.InvalidError", bad, err)
		}
	}
}
