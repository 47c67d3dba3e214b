package sqlitestore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/sqlitestore"
)

func init() {
	roles["create"] = playCreator
	roles["claim"] = playClaimer
	roles["commit"] = playCommitter
	roles["hold"] = playHolder
	roles["deliver"] = playDeliverer
}

// withStore opens the store in the first argument and calls play.
func withStore(args []string, play func(ctx context.Context, s *sqlitestore.Store) error) error {
	s, err := sqlitestore.Open(args[0])
	if err != nil {
		return err
	}
	return errors.Join(play(context.Background(), s), s.Close())
}

// playCreator creates the given runs from ten goroutines. Each run is created twice.
func playCreator(args []string) error {
	return withStore(args, func(ctx context.Context, s *sqlitestore.Store) error {
		var ids []event.RunID
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			ids = append(ids, event.RunID(lines.Text()))
		}
		var g errgroup.Group
		for n := range 10 {
			g.Go(func() error {
				for i := range 2 * len(ids) / 10 {
					l := newLogOf(ids[(i*10+n)%len(ids)], store.SystemClock)
					got, err := s.Create(ctx, []store.Create{l.Create()})
					if err != nil {
						return err
					}
					if want := (store.Created{Run: l.Run, New: true}); got[0] != want {
						return fmt.Errorf("create: got %+v, want %+v", got[0], want)
					}
				}
				return nil
			})
		}
		return g.Wait()
	})
}

func TestCreate_TwoProcessesMakeEachRunOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db") // the file does not exist: both processes try to create it
	var ids []string
	for range 1000 {
		ids = append(ids, string(event.NewRunID(time.Now(), 0)))
	}
	var children []*child
	for range 2 {
		children = append(children, startChild(t, "create", path))
	}
	for _, c := range children {
		c.say(strings.Join(ids, "\n"))
		check(t, c.in.Close())
	}
	for _, c := range children {
		c.wait()
	}
	if got := len(verify(t, openStore(t, path, nil)).Runs); got != len(ids) {
		t.Errorf("runs: got %d, want %d", got, len(ids))
	}
}

// playClaimer prints the runs that it claims until no run is left, then an empty line. It keeps its
// runs until its input ends.
func playClaimer(args []string) error {
	return withStore(args, func(ctx context.Context, s *sqlitestore.Store) error {
		session := store.SessionID(args[1])
		if err := s.OpenSession(ctx, store.Session{ID: session, TTL: ttl, Routes: routes}); err != nil {
			return err
		}
		for {
			got, err := s.Claim(ctx, claimOf(session, 3))
			if err != nil {
				return err
			}
			if len(got.Runs) == 0 {
				fmt.Println()
				_, err := io.Copy(io.Discard, os.Stdin)
				return err
			}
			for _, r := range got.Runs {
				fmt.Println(r.Run)
			}
		}
	})
}

func TestClaim_TwoProcessesNeverShareARun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openStore(t, path, nil)
	logs := start(t, s, 600)
	a, b := startChild(t, "claim", path, "a"), startChild(t, "claim", path, "b")
	owners := map[string]int{}
	for _, c := range []*child{a, b} {
		for run := c.line(); run != ""; run = c.line() {
			owners[run]++
		}
	}
	want := map[string]int{}
	for _, l := range logs {
		want[string(l.Run)] = 1
	}
	if diff := cmp.Diff(want, owners); diff != "" {
		t.Errorf("number of owners (-want +got)\n%s", diff)
	}
	verify(t, s)
	for _, c := range []*child{a, b} {
		check(t, c.in.Close())
		c.wait()
	}
}

// playCommitter claims all runs and commits to all of them concurrently. It prints a line for each
// acknowledged commit.
func playCommitter(args []string) error {
	return withStore(args, func(ctx context.Context, s *sqlitestore.Store) error {
		const session = "committer"
		if err := s.OpenSession(ctx, store.Session{ID: session, TTL: ttl, Routes: routes}); err != nil {
			return err
		}
		var logs []*storetest.Log
		var creates []store.Create
		for range 20 {
			l := newLog(s.Clock())
			logs = append(logs, l)
			creates = append(creates, l.Create())
		}
		if _, err := s.Create(ctx, creates); err != nil {
			return err
		}
		got, err := s.Claim(ctx, claimOf(session, len(logs)))
		if err != nil {
			return err
		}
		fences := map[event.RunID]store.Fence{}
		for _, r := range got.Runs {
			fences[r.Run] = r.Fence
		}
		var g errgroup.Group
		for _, l := range logs {
			g.Go(func() error { return commitForEver(ctx, s, l, fences[l.Run]) })
		}
		return g.Wait()
	})
}

func commitForEver(ctx context.Context, s *sqlitestore.Store, l *storetest.Log, fence store.Fence) error {
	for {
		c := l.Commit(fence, l.Work()...)
		got, err := s.Commit(ctx, []store.Commit{c})
		if err == nil {
			err = got[0].Err
		}
		if err != nil {
			return err
		}
		l.Accept(c)
		// The line must be a single write, so that a kill cannot truncate it.
		fmt.Printf("%s %d\n", l.Run, got[0].N)
	}
}

func TestCommit_EveryAcknowledgedOneSurvivesKill(t *testing.T) {
	for _, lines := range []int{1, 500, 2000} {
		t.Run(strconv.Itoa(lines), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "runs.db")
			c := startChild(t, "commit", path)
			var printed []string
			for range lines {
				printed = append(printed, c.line())
			}
			check(t, c.cmd.Process.Kill())
			printed = append(printed, c.rest()...)
			c.kill()
			acknowledged := map[event.RunID]uint64{}
			for _, line := range printed {
				run, n, _ := strings.Cut(line, " ")
				frames, err := strconv.ParseUint(n, 10, 64)
				check(t, err)
				acknowledged[event.RunID(run)] = max(acknowledged[event.RunID(run)], frames)
			}
			snap := verify(t, openStore(t, path, nil))
			for run, n := range acknowledged {
				if r := snap.Runs[run]; r == nil || r.N < n {
					t.Errorf("run %s: got %+v, want at least %d frames", run, r, n)
				}
			}
		})
	}
}

// playHolder claims all runs, reports that, and then executes commands. The command beat prints the
// result of a heartbeat.
func playHolder(args []string) error {
	return withStore(args, func(ctx context.Context, s *sqlitestore.Store) error {
		const session = "holder"
		if err := s.OpenSession(ctx, store.Session{ID: session, TTL: ttl, Routes: routes}); err != nil {
			return err
		}
		got, err := s.Claim(ctx, claimOf(session, 100))
		if err != nil {
			return err
		}
		fmt.Println(len(got.Runs))
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			_, err := s.Heartbeat(ctx, 0, session)
			fmt.Println(errors.Is(err, store.ErrExpired))
		}
		return nil
	})
}

// startHolder starts a process that owns all runs.
func startHolder(t *testing.T, path string, runs int) *child {
	t.Helper()
	c := startChild(t, "hold", path)
	if got := c.line(); got != strconv.Itoa(runs) {
		t.Fatalf("the other process owns %s runs, want %d", got, runs)
	}
	return c
}

func TestClaim_RecoversAtOnceWhatAKilledProcessOwned(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "runs.db")
	s := openStore(t, path, nil)
	logs := start(t, s, 3)
	holder := startHolder(t, path, len(logs))
	openSession(t, s, "successor")
	if got := claim(t, s, "successor", 10); len(got) != 0 {
		t.Fatalf("claimed %d runs of a living process", len(got))
	}
	if got := strings.Count(files(t, dir), ".lock"); got != 2 {
		t.Fatalf("lock files: got %d in %s, want one per process", got, files(t, dir))
	}
	holder.kill()

	// The lease has not expired, and the store has not observed the session for long enough to
	// recover it by lease.
	if got := claim(t, s, "successor", 10); len(got) != len(logs) {
		t.Fatalf("claimed %d runs of a dead process, want %d", len(got), len(logs))
	}
	entries, err := s.Audit(testContext(t), logs[0].Run)
	check(t, err)
	if len(entries) != 1 || entries[0].Reason != store.ReasonProcessEnded || entries[0].Owner != "holder" || entries[0].By != "successor" {
		t.Errorf("audit: got %+v, want that the successor found the holder's process ended", entries)
	}
	if snap := verify(t, s); len(snap.Leases) != 1 {
		t.Errorf("leases: got %v, want the successor's", snap.Leases)
	}
	if got := strings.Count(files(t, dir), ".lock"); got != 1 {
		t.Errorf("lock files: got %d in %s, want that of this process", got, files(t, dir))
	}
}

func TestWait_NoticesThatAnotherProcessWasKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openStore(t, path, nil)
	start(t, s, 1)
	holder := startHolder(t, path, 1)
	openSession(t, s, "successor")
	claim(t, s, "successor", 1)
	holder.kill()
	for {
		woken, err := s.Wait(testContext(t), store.Wait{Sessions: []store.WaitSession{{Session: "successor"}}, Routes: routes})
		check(t, err)
		if len(woken.Claim) == 0 {
			t.Fatalf("woken: got %+v, want to claim", woken)
		}
		if len(claim(t, s, "successor", 1)) == 1 {
			return
		}
	}
}

// playDeliverer delivers an item to a run.
func playDeliverer(args []string) error {
	return withStore(args, func(ctx context.Context, s *sqlitestore.Store) error {
		_, err := s.Deliver(ctx, store.Deliver{Run: event.RunID(args[1]), Item: store.Item{ID: "hello", Body: []byte(`1`)}})
		return err
	})
}

func TestWait_IsToldOfAnItemFromAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openStore(t, path, nil)
	run := start(t, s, 1)[0].Run
	openSession(t, s, "a")
	claim(t, s, "a", 1)
	startChild(t, "deliver", path, string(run))
	woken, err := s.Wait(testContext(t), store.Wait{Sessions: []store.WaitSession{{Session: "a"}}})
	check(t, err)
	if diff := cmp.Diff(store.Woken{Unread: []event.RunID{run}}, woken); diff != "" {
		t.Errorf("woken (-want +got)\n%s", diff)
	}
}
