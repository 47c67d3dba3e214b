package storetest

import (
	"errors"
	"slices"
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// together calls f n times concurrently and returns when all calls have returned.
func together(n int, f func(i int)) {
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range n {
		done.Go(func() {
			start.Wait()
			f(i)
		})
	}
	start.Done()
	done.Wait()
}

// waitBeside calls Wait concurrently with an operation that must end it. The store may see either
// of the two first.
func (h *harness) waitBeside(w store.Wait, happens func() error) store.Woken {
	h.Helper()
	var woken store.Woken
	together(2, func(i int) {
		var err error
		if i == 0 {
			woken, err = h.store.Wait(h.ctx, w)
		} else {
			err = happens()
		}
		if err != nil {
			h.Errorf("wait, or what happens meanwhile: %v", err)
		}
	})
	return woken
}

var raceBehaviors = []behavior{
	{"C1_FiftyConcurrentStartersGetOneRun", func(h *harness) {
		const starters = 50
		wid := h.workflowID("order")
		var requests []store.Create
		for range starters {
			requests = append(requests, h.newLog(orders, wid).Create())
		}
		answers := make([]store.Created, starters)
		together(starters, func(i int) {
			got, err := h.store.Create(h.ctx, requests[i:i+1])
			if err != nil {
				h.Errorf("create: %v", err)
				return
			}
			answers[i] = got[0]
		})
		created := 0
		for i, a := range answers {
			h.equal("run", a.Run, answers[0].Run)
			if a.New {
				created++
				h.equal("new run", a.Run, requests[i].Run)
			}
		}
		h.equal("number of new runs", created, 1)
		h.equal("number of runs", len(h.inspect().Runs), 1)
	}},
	{"C1_FiftyConcurrentStartersUnderActiveCancelFormALine", func(h *harness) {
		const starters = 50
		wid := h.workflowID("order")
		var requests []store.Create
		for range starters {
			c := h.newLog(orders, wid).Create()
			c.Active, c.Cancel = store.ActiveCancel, h.item()
			requests = append(requests, c)
		}
		together(starters, func(i int) {
			if _, err := h.store.Create(h.ctx, requests[i:i+1]); err != nil {
				h.Errorf("create: %v", err)
			}
		})
		snap := h.inspect()
		h.equal("length of the line", len(snap.Lines[wid]), starters-1)
		for n, run := range snap.Lines[wid] {
			h.equal("cancels", len(snap.Runs[run].Inbox), starters-2-n)
		}
	}},
	{"K1_ConcurrentClaimersNeverShareARun", func(h *harness) {
		const runs, claimers = 200, 10
		for range runs {
			h.start()
		}
		var sessions []store.SessionID
		for range claimers {
			sessions = append(sessions, h.session())
		}
		claimed := make([][]event.RunID, claimers)
		together(claimers, func(i int) {
			for {
				got, err := h.store.Claim(h.ctx, store.Claim{Session: sessions[i], Token: h.ids.Token(), Routes: []store.Route{orders}, Max: 3})
				if err != nil {
					h.Errorf("claim: %v", err)
					return
				}
				if len(got.Runs) == 0 {
					return
				}
				claimed[i] = append(claimed[i], runsOf(got.Runs)...)
			}
		})
		all := slices.Concat(claimed...)
		slices.Sort(all)
		h.equal("number of claimed runs", len(all), runs)
		h.equal("number of different runs", len(slices.Compact(all)), runs)
	}},
	{"M1_ConcurrentSendersOfOneItemAreAcceptedOnce", func(h *harness) {
		l := h.start()
		i := h.item()
		together(20, func(int) {
			if _, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: i}); err != nil {
				h.Errorf("deliver: %v", err)
			}
		})
		h.equal("inbox", h.load(l.Run).Inbox, []store.Item{i})
	}},
	{"M4_AnItemIsNeverLostToAParkingRun", func(h *harness) {
		s := h.session()
		l := h.start()
		for range 30 {
			fence := h.own(s, l)
			i := h.item()
			c := withEffect(l.Commit(fence, l.Work()...), store.EffectPark, "")
			var answer store.Committed
			together(2, func(n int) {
				var err error
				if n == 0 {
					_, err = h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: i})
				} else {
					var all []store.Committed
					if all, err = h.store.Commit(h.ctx, []store.Commit{c}); err == nil {
						answer = all[0]
					}
				}
				if err != nil {
					h.Errorf("deliver or park: %v", err)
				}
			})
			if errors.Is(answer.Err, store.ErrUnread) { // the item came first
				h.commit(l, withEffect(consuming(l.Commit(fence, l.Receive(i)...), i), store.EffectYield, ""))
				continue
			}
			h.check("park", answer.Err)
			l.Accept(c)
			fence = h.own(s, l) // the item has made it ready
			h.commit(l, withEffect(consuming(l.Commit(fence, l.Receive(i)...), i), store.EffectYield, ""))
		}
	}},
	{"K2_AWaitThatBeginsWithAStartIsToldOfIt", func(h *harness) {
		s := h.session()
		for range 50 {
			l := h.newLog(orders, "")
			woken := h.waitBeside(waitFor(s, orders), func() error {
				_, err := h.store.Create(h.ctx, []store.Create{l.Create()})
				return err
			})
			h.equal("claim", woken.Claim, []int{0})
			h.own(s, l)
		}
	}},
	{"K2_AWaitThatBeginsWithADeliveryIsToldOfIt", func(h *harness) {
		s := h.session()
		l, _ := h.startOwned(s)
		for range 50 {
			item := h.item()
			woken := h.waitBeside(waitFor(s), func() error {
				_, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: item})
				return err
			})
			h.equal("unread items", woken.Unread, []event.RunID{l.Run})
		}
	}},
	{"W3_ConcurrentTriesOfOneCommitAreAppliedOnce", func(h *harness) {
		l, fence := h.startOwned(h.session())
		c := l.Commit(fence, l.Work()...)
		together(20, func(int) {
			got, err := h.store.Commit(h.ctx, []store.Commit{c})
			if err != nil || got[0].Err != nil || got[0].N != 2 {
				h.Errorf("commit: got %+v, %v", got, err)
			}
		})
		h.equal("frames", h.record(l.Run).N, uint64(2))
	}},
	{"F1_OfConcurrentCommitsBehindOneFrameOneIsWritten", func(h *harness) {
		const writers = 20
		l, fence := h.startOwned(h.session())
		var commits []store.Commit
		for range writers {
			commits = append(commits, l.Commit(fence, l.Work()...))
		}
		written := make([]bool, writers)
		together(writers, func(i int) {
			got, err := h.store.Commit(h.ctx, commits[i:i+1])
			if err != nil {
				h.Errorf("commit: %v", err)
				return
			}
			written[i] = got[0].Err == nil
			if _, conflict := errors.AsType[*store.ConflictError](got[0].Err); !written[i] && !conflict {
				h.Errorf("commit: %v", got[0].Err)
			}
		})
		n := 0
		for _, ok := range written {
			if ok {
				n++
			}
		}
		h.equal("number of written commits", n, 1)
		h.equal("frames", h.record(l.Run).N, uint64(2))
	}},
}
