package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// shippedAs returns the commands for calls: the name of the script, or the number of operations of
// a batch and its first partition.
func shippedAs(calls []*call, cluster bool) (names []string) {
	sent := shipOrdered(nil, calls, fewestCalls)
	if cluster {
		sent = shipPartitions(calls, fewestCalls)
	}
	for _, s := range sent {
		if name := s.script.name; name != scriptBatch.name {
			names = append(names, name)
		} else {
			names = append(names, fmt.Sprintf("%d in %d", len(s.calls), s.calls[0].p.number))
		}
	}
	return names
}

func TestShip_ABatchKeepsTheOrderOfAPartition(t *testing.T) {
	zero, one := newPartition("x", 0), newPartition("x", 1)
	of := func(s *script, p *partition, change ...func(c *call)) *call {
		c := &call{script: s, p: p}
		for _, f := range change {
			f(c)
		}
		return c
	}
	heavy := func(c *call) { c.size = heaviest/2 + 1 }
	wide := func(c *call) { c.args = make([]any, 256) }
	for name, tt := range map[string]struct {
		calls   []*call
		cluster bool
		want    []string
	}{
		"operations of both partitions": {[]*call{of(scriptAppend, zero), of(scriptFinish, one), of(scriptCreate, zero)}, false, []string{"3 in 0"}},
		"few operations":                {[]*call{of(scriptAppend, zero), of(scriptFinish, zero)}, false, []string{"append", "finish"}},
		"another script between operations": {
			[]*call{of(scriptAppend, zero), of(scriptAppend, zero), of(scriptAppend, zero), of(scriptCommit, zero), of(scriptAppend, zero), of(scriptAppend, zero), of(scriptAppend, zero), of(scriptAppend, zero)},
			false, []string{"3 in 0", "commit", "4 in 0"},
		},
		"partitions of a cluster": {
			[]*call{of(scriptAppend, one), of(scriptAppend, zero), of(scriptCommit, zero), of(scriptAppend, one), of(scriptAppend, one)},
			true, []string{"3 in 1", "append", "commit"},
		},
		"large frames": {[]*call{of(scriptAppend, zero, heavy), of(scriptAppend, zero, heavy), of(scriptAppend, zero), of(scriptAppend, zero)}, false, []string{"append", "3 in 0"}},
		"more arguments than a byte counts": {
			[]*call{of(scriptCreate, zero), of(scriptCreate, zero), of(scriptCreate, zero), of(scriptCreate, zero, wide)}, false, []string{"3 in 0", "create"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, shippedAs(tt.calls, tt.cluster)); diff != "" {
				t.Errorf("commands (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSTORE3_ABatchDeclaresTwoKeys proves that a node which receives the slot of a partition refuses a
// batch while keys of the partition are on the other node. It would execute a batch that declares a
// single key, on a part of the data.
func TestSTORE3_ABatchDeclaresTwoKeys(t *testing.T) {
	p := newPartition("x", 0)
	c := &call{script: scriptAppend, p: p, keys: []string{p.meta("1"), p.log("1")}}
	for _, whole := range []bool{false, true} {
		s := shipment{script: scriptBatch, calls: []*call{c, c, c}}
		args := s.build(t.Context(), whole).Args()
		var keys []string
		for _, k := range args[3 : 3+args[2].(int)] {
			keys = append(keys, *k.(*string))
		}
		if len(keys) != 2 || keys[0] == keys[1] || keys[1] != p.never() {
			t.Errorf("keys: got %q, want one of the first operation, and the one that never exists", keys)
		}
	}
}

// TestSTORE3_AnOperationOfABatchAffectsOnlyItself proves that refused commits, and commits to runs
// whose metadata or log was overwritten, leave the other commits of their batch as they are.
func TestSTORE3_AnOperationOfABatchAffectsOnlyItself(t *testing.T) {
	g := openGuarded(t)
	session := g.session()
	var logs []*storetest.Log
	var commits []store.Commit
	add := func(end bool, change ...func(c *store.Commit)) *storetest.Log {
		l, fence := g.own(session, "")
		c := g.shaped(scriptAppend, l, fence)
		if end {
			c = g.shaped(scriptFinish, l, fence)
		}
		for _, f := range change {
			f(&c)
		}
		logs, commits = append(logs, l), append(commits, c)
		return l
	}
	older := func(c *store.Commit) { c.Fence.Epoch-- }
	add(false)
	add(false, older)
	damaged, broken := add(true), add(false)
	add(true)
	add(true, older)
	last := add(false)
	first := commits[len(commits)-1]
	last.Accept(first)
	logs, commits = append(logs, last), append(commits, g.shaped(scriptFinish, last, first.Fence))

	client := g.client
	meta, log := g.parts[0].meta(short(damaged.Run)), g.parts[0].log(short(broken.Run))
	for _, key := range []string{meta, log} {
		g.check(client.Set(g.ctx, key, "another program", 0).Err())
	}
	got, err := g.Commit(g.ctx, commits)
	g.check(err)
	for i, want := range []struct {
		frames  uint64
		refused bool
		damaged bool
		status  event.Status
	}{
		{frames: 2}, {refused: true}, {damaged: true}, {damaged: true}, {frames: 2, status: event.StatusCompleted}, {refused: true}, {frames: 2}, {frames: 3, status: event.StatusCompleted},
	} {
		var damage *store.DamagedError
		if errors.Is(got[i].Err, store.ErrFenced) != want.refused || errors.As(got[i].Err, &damage) != want.damaged || got[i].N != want.frames {
			t.Errorf("commit %d: got %+v, want %+v", i, got[i], want)
		}
		if want.frames == 0 && !want.refused || i == 6 {
			continue // the record is damaged, or a later commit has changed it
		}
		if rec := g.loaded(logs[i].Run).Record; rec.N != max(want.frames, 1) || want.status != "" && rec.Status != want.status {
			t.Errorf("record %d: got %d frames and status %v, want %+v", i, rec.N, rec.Status, want)
		}
	}
	g.check(client.Del(g.ctx, meta, log, g.parts[0].log(short(damaged.Run))).Err())
}

// TestSTORE3_AnOverwrittenIndexFailsTheCreationsOfABatch proves that creations in a batch get the
// error of an index that they change together, and that repeating them returns their fences.
func TestSTORE3_AnOverwrittenIndexFailsTheCreationsOfABatch(t *testing.T) {
	g := openGuarded(t)
	session := g.session()
	index := g.parts[0].openRuns(routeCode(guardedRoute), false)
	g.check(g.client.Set(g.ctx, index, "another program", 0).Err())
	var creates []store.Create
	for range 4 {
		l := storetest.NewLog(g.ids, g.clock, g.ids.Run(g.clock.Now(), 0), event.Spec{Workflow: guardedRoute.Workflow, Queue: guardedRoute.Queue})
		c := l.Create()
		c.Owner = &store.Owner{Session: session, Token: g.ids.Token()}
		creates = append(creates, c)
	}
	got, _ := g.Create(g.ctx, creates)
	for i := range got {
		if err := got[i].Err; err == nil || !strings.Contains(err.Error(), index) {
			t.Errorf("create %d: got %+v, want an error that names key %s", i, got[i], index)
		}
	}
	g.check(g.client.Del(g.ctx, index).Err())
	again, err := g.Create(g.ctx, creates)
	g.check(err)
	for i, c := range again {
		if c.Err != nil || c.Fence != creates[i].Owner.Fence() {
			t.Errorf("repeated create %d: got %+v, want fence %v", i, c, creates[i].Owner.Fence())
		}
	}
}

// TestSTORE3_ABatchAnnouncesRunsInEachPartition proves that a batch that makes runs of a route ready
// in several partitions stores a notification and the name of the route in each. A batch of runs
// with an owner stores the name only.
func TestSTORE3_ABatchAnnouncesRunsInEachPartition(t *testing.T) {
	for name, want := range map[string]struct{ wakes, names, ready, owned int64 }{"ready": {1, 1, 2, 0}, "owned": {0, 1, 0, 2}} {
		t.Run(name, func(t *testing.T) {
			g := openGuardedIn(t, redistest.Shared(t).Client(t), 4)
			sessions := make([]store.SessionID, len(g.parts))
			for p := range sessions {
				sessions[p] = g.ids.Session()
				g.check(g.OpenSession(g.ctx, store.Session{Partition: p, ID: sessions[p], TTL: time.Minute, Routes: []store.Route{guardedRoute}}))
			}
			var creates []store.Create
			for slot := range 8 {
				l := storetest.NewLog(g.ids, g.clock, g.ids.Run(g.clock.Now(), uint16(slot)), event.Spec{Workflow: guardedRoute.Workflow, Queue: guardedRoute.Queue})
				c := l.Create()
				if name == "owned" {
					c.Owner = &store.Owner{Session: sessions[slot%len(sessions)], Token: g.ids.Token()}
				}
				creates = append(creates, c)
			}
			got, err := g.Create(g.ctx, creates)
			g.check(err)
			for i := range got {
				g.check(got[i].Err)
			}
			for _, p := range g.parts {
				wakes, names := g.client.HLen(g.ctx, p.wakes()).Val(), g.client.HLen(g.ctx, p.routes()).Val()
				ready, owned := g.client.ZCard(g.ctx, p.ready(routeCode(guardedRoute))).Val(), g.client.SCard(g.ctx, p.owned(sessionCode(sessions[p.number]))).Val()
				if wakes != want.wakes || names != want.names || ready != want.ready || owned != want.owned {
					t.Errorf("partition %d: got %d notifications, %d names, %d ready and %d owned runs, want %+v", p.number, wakes, names, ready, owned, want)
				}
			}
			g.sound()
		})
	}
}

// TestSTORE3_ABatchExaminesEachSession proves that a batch creates no run for a session that is over,
// whatever the sessions of the other runs are.
func TestSTORE3_ABatchExaminesEachSession(t *testing.T) {
	g := openGuarded(t)
	live, over := g.session(), g.session()
	g.check(g.CloseSession(g.ctx, 0, over))
	var creates []store.Create
	for _, session := range []store.SessionID{live, over, live, over} {
		l := storetest.NewLog(g.ids, g.clock, g.ids.Run(g.clock.Now(), 0), event.Spec{Workflow: guardedRoute.Workflow, Queue: guardedRoute.Queue})
		c := l.Create()
		c.Owner = &store.Owner{Session: session, Token: g.ids.Token()}
		creates = append(creates, c)
	}
	got, err := g.Create(g.ctx, creates)
	g.check(err)
	for i, c := range creates {
		if errors.Is(got[i].Err, store.ErrExpired) != (c.Owner.Session == over) {
			t.Errorf("create %d for session %s, of which %s is over: got %+v", i, c.Owner.Session, over, got[i])
		}
	}
	g.sound()
}

// TestSTORE3_ABatchKeepsTheOrderOfChangesOfAnIndex proves that a run that a batch creates and ends is
// removed from the indexes to which the batch has added it, and a run that it only creates is not.
func TestSTORE3_ABatchKeepsTheOrderOfChangesOfAnIndex(t *testing.T) {
	g := openGuarded(t)
	g.BatchEverything()
	session := g.session()
	var calls []*call
	var logs []*storetest.Log
	for n := range 3 {
		l := storetest.NewLog(g.ids, g.clock, g.ids.Run(g.clock.Now(), 0), event.Spec{Workflow: guardedRoute.Workflow, Queue: guardedRoute.Queue})
		c := l.Create()
		c.Owner = &store.Owner{Session: session, Token: g.ids.Token()}
		calls, logs = append(calls, g.creation(&c, &newRun{}, new(strings.Builder))), append(logs, l)
		if n > 0 {
			end := g.shaped(scriptFinish, l, c.Owner.Fence())
			calls = append(calls, g.Store.commit(&end, &usualCall{}, new(strings.Builder)))
		}
	}
	if sent := g.ship(calls); len(sent) != 1 {
		t.Fatalf("got %d commands, want one batch", len(sent))
	}
	g.check(g.do(g.ctx, calls...))
	for n, l := range logs {
		if rec := g.loaded(l.Run).Record; (rec.QueueState == store.StateEnded) != (n > 0) || rec.N != uint64(min(n+1, 2)) {
			t.Errorf("run %d: got %+v, want the first one with a frame, and the others with two and ended", n, rec)
		}
	}
	p := g.parts[0]
	open, owned := g.client.ZCard(g.ctx, p.openRuns(routeCode(guardedRoute), false)).Val(), g.client.SCard(g.ctx, p.owned(sessionCode(session))).Val()
	if open != 1 || owned != 1 {
		t.Errorf("got %d open runs and %d runs of the session, want one", open, owned)
	}
	g.sound()
}
