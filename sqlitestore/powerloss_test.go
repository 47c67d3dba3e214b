//go:build unix

package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/sqlitestore"
)

// sector is the number of bytes that a disk writes atomically.
const sector = 512

// disk contains the files of a database on a disk that can lose power.
type disk struct {
	durable map[string][]byte // contents that survive
	pending map[string][]call // writes since the last sync, which may survive completely or partially
}

func (d *disk) do(c call) {
	switch c.kind {
	case callWrite, callTruncate:
		d.pending[c.file] = append(d.pending[c.file], c)
	case callSync:
		for _, p := range d.pending[c.file] {
			d.durable[c.file] = p.apply(d.durable[c.file])
		}
		d.pending[c.file] = nil
	}
}

func (c call) apply(content []byte) []byte {
	if c.kind == callTruncate {
		return resize(content, c.at)
	}
	if end := c.at + int64(len(c.data)); int64(len(content)) < end {
		content = resize(content, end)
	}
	copy(content[c.at:], c.data)
	return content
}

func resize(content []byte, size int64) []byte {
	if size <= int64(len(content)) {
		return content[:size]
	}
	return append(content, make([]byte, size-int64(len(content)))...)
}

// sectors splits a write at the boundaries of sectors.
func (c call) sectors() []call {
	if c.kind != callWrite {
		return []call{c}
	}
	var cut []call
	for offset, rest := c.at, c.data; len(rest) > 0; {
		n := min(sector-int(offset%sector), len(rest))
		cut = append(cut, call{kind: callWrite, at: offset, data: rest[:n]})
		offset, rest = offset+int64(n), rest[n:]
	}
	return cut
}

// losePower returns possible contents of a file after a loss of power. It applies an arbitrary part
// of the pending writes to the durable contents, in arbitrary order.
func (d *disk) losePower(file string, chance *rand.Rand) []byte {
	content := slices.Clone(d.durable[file])
	share := chance.Float64()*2 - 0.5 // often below 0 or above 1, so that none or all writes survive
	for _, p := range d.pending[file] {
		for _, s := range p.sectors() {
			if chance.Float64() < share {
				content = s.apply(content)
			}
		}
	}
	return content
}

const (
	powerRuns    = 8
	powerCommits = 400
	powerPages   = 150 // so small that the log is restarted many times; a commit writes about three pages
	powerLosses  = 40
)

// recordCommits opens a session, claims all runs, and commits to one after the other. It returns
// the files before the commits, and the calls that the commits caused.
func recordCommits(t *testing.T, mode sqlitestore.Synchronous) (before []byte, calls []call, logs []*storetest.Log) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openStore(t, path, nil)
	logs = start(t, s, powerRuns)
	check(t, s.Close())
	before, err := os.ReadFile(path)
	check(t, err)

	r, stop := startRecording(t, path)
	defer stop()
	s, err = sqlitestore.OpenWith(path, sqlitestore.Config{Synchronous: mode})
	check(t, err)
	check(t, s.CheckpointEvery(testContext(t), powerPages))
	openSession(t, s, "a")
	fences := map[event.RunID]store.Fence{}
	for _, c := range claim(t, s, "a", powerRuns) {
		fences[c.Run] = c.Fence
	}
	for n := range powerCommits {
		l := logs[n%powerRuns]
		c := l.Commit(fences[l.Run], l.Work()...)
		got, err := s.Commit(testContext(t), []store.Commit{c})
		check(t, err)
		check(t, got[0].Err)
		r.answered()
		l.Accept(c)
	}
	check(t, s.Close())
	return before, r.calls, logs
}

// reopened returns the number of commits in a store after a loss of power. It fails the test unless
// these are the first commits and the store is consistent.
func reopened(t *testing.T, db, wal []byte, logs []*storetest.Log) int {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runs.db")
	check(t, os.WriteFile(path, db, 0o600))
	check(t, os.WriteFile(path+"-wal", wal, 0o600))
	snap := verify(t, openStore(t, path, nil))
	total, got := 0, map[event.RunID]uint64{}
	for _, l := range logs {
		if r := snap.Runs[l.Run]; r != nil {
			got[l.Run] = r.N
			total += int(r.N) - 1
		}
	}
	want := map[event.RunID]uint64{}
	for i, l := range logs {
		want[l.Run] = uint64(1 + (total+powerRuns-1-i)/powerRuns)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("frames after a loss of power: not those of the first %d commits (-want +got)\n%s", total, diff)
	}
	return total
}

// losses returns the indexes of the calls after which power is lost. Some are random, and some are
// within a checkpoint.
func losses(calls []call, chance *rand.Rand) []int {
	var checkpoints []int
	for i, c := range calls {
		if c.file == "db" {
			checkpoints = append(checkpoints, i)
		}
	}
	var points []int
	for n := range powerLosses {
		if n%2 == 0 && len(checkpoints) > 0 {
			points = append(points, checkpoints[chance.IntN(len(checkpoints))]+chance.IntN(3))
			continue
		}
		points = append(points, chance.IntN(len(calls)))
	}
	slices.Sort(points)
	return points
}

func TestOpen_AfterALossOfPowerHoldsAPrefixOfTheCommits(t *testing.T) {
	for _, mode := range []sqlitestore.Synchronous{sqlitestore.Normal, sqlitestore.Full} {
		t.Run(mode.String(), func(t *testing.T) {
			seed := rand.Uint64()
			chance := rand.New(rand.NewPCG(seed, 0))
			before, calls, logs := recordCommits(t, mode)
			d := &disk{durable: map[string][]byte{"db": before}, pending: map[string][]call{}}
			done, answered, lost := 0, 0, 0
			for _, point := range losses(calls, chance) {
				for ; done < min(point, len(calls)); done++ {
					if d.do(calls[done]); calls[done].kind == callAnswer {
						answered++
					}
				}
				t.Run(fmt.Sprintf("seed %d call %d", seed, point), func(t *testing.T) {
					kept := reopened(t, d.losePower("db", chance), d.losePower("wal", chance), logs)
					lost = max(lost, answered-kept)
				})
			}
			if mode == sqlitestore.Full && lost > 0 {
				t.Errorf("up to %d answered commits were lost, want none (seed %d)", lost, seed)
			}
			if mode == sqlitestore.Normal && lost == 0 {
				t.Errorf("no answered commit was ever lost: the power was not really lost (seed %d)", seed)
			}
		})
	}
}

// TestFull_ACallerCanGiveUpWhileTheDiskHangs proves that no caller waits for the disk itself in Full
// mode, where each commit does.
func TestFull_ACallerCanGiveUpWhileTheDiskHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	check(t, openStore(t, path, nil).Close())
	r, stop := startRecording(t, path)
	defer stop()
	s, err := sqlitestore.OpenWith(path, sqlitestore.Config{Synchronous: sqlitestore.Full})
	check(t, err)
	start(t, s, 1)
	hanging, proceed := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(hanging) })
	r.mu.Lock()
	r.hang = func() { once(); <-proceed }
	r.mu.Unlock()
	ctx, cancel := context.WithCancel(testContext(t))
	failed := make(chan error, 1)
	go func() {
		_, err := s.Create(ctx, []store.Create{newLog(s.Clock()).Create()})
		failed <- err
	}()
	<-hanging
	cancel()
	select {
	case err := <-failed:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("create: got error %v, want that its context ended", err)
		}
	case <-testContext(t).Done():
		t.Error("create did not return when its context ended")
	}
	close(proceed)
	check(t, s.Close())
}
