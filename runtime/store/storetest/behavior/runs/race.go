package runs

import (
	"errors"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// waitBeside calls Wait and, concurrently, an operation that must end the Wait. The store may
// receive the two calls in either order.
func (h *harness) waitBeside(w store.Wait, happens func() error) store.Woken {
	h.Helper()
	var woken store.Woken
	suite.Together(2, func(i int) {
		var err error
		if i == 0 {
			woken, err = h.Store.Wait(h.Ctx, w)
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
		wid := h.WorkflowID("order")
		var requests []store.Create
		for range starters {
			requests = append(requests, h.NewLog(suite.Orders, wid).Create())
		}
		answers := make([]store.Created, starters)
		suite.Together(starters, func(i int) {
			got, err := h.Store.Create(h.Ctx, requests[i:i+1])
			if err != nil {
				h.Errorf("create: %v", err)
				return
			}
			answers[i] = got[0]
		})
		created := 0
		for i, a := range answers {
			h.Equal("run", a.Run, answers[0].Run)
			if a.New {
				created++
				h.Equal("new run", a.Run, requests[i].Run)
			}
		}
		h.Equal("number of new runs", created, 1)
		h.Equal("number of runs", len(h.Inspect().Runs), 1)
	}},
	{"C1_FiftyConcurrentStartersUnderActiveCancelFormALine", func(h *harness) {
		const starters = 50
		wid := h.WorkflowID("order")
		var requests []store.Create
		for range starters {
			c := h.NewLog(suite.Orders, wid).Create()
			c.Active, c.Cancel = store.ActiveCancel, h.Item()
			requests = append(requests, c)
		}
		suite.Together(starters, func(i int) {
			if _, err := h.Store.Create(h.Ctx, requests[i:i+1]); err != nil {
				h.Errorf("create: %v", err)
			}
		})
		snap := h.Inspect()
		h.Equal("length of the line", len(snap.Lines[wid]), starters-1)
		for n, run := range snap.Lines[wid] {
			h.Equal("cancels", len(snap.Runs[run].Inbox), starters-2-n)
		}
	}},
	{"K1_ConcurrentClaimersNeverShareARun", func(h *harness) {
		const runs, claimers = 200, 10
		for range runs {
			h.Start()
		}
		var sessions []store.SessionID
		for range claimers {
			sessions = append(sessions, h.Session())
		}
		claimed := make([][]event.RunID, claimers)
		suite.Together(claimers, func(i int) {
			for {
				got, err := h.Store.Claim(h.Ctx, store.Claim{Session: sessions[i], Token: h.IDs.Token(), Routes: []store.Route{suite.Orders}, Max: 3})
				if err != nil {
					h.Errorf("claim: %v", err)
					return
				}
				if len(got.Runs) == 0 {
					return
				}
				claimed[i] = append(claimed[i], suite.RunsOf(got.Runs)...)
			}
		})
		all := slices.Concat(claimed...)
		slices.Sort(all)
		h.Equal("number of claimed runs", len(all), runs)
		h.Equal("number of different runs", len(slices.Compact(all)), runs)
	}},
	{"M1_ConcurrentSendersOfOneItemAreAcceptedOnce", func(h *harness) {
		l := h.Start()
		i := h.Item()
		suite.Together(20, func(int) {
			if _, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: i}); err != nil {
				h.Errorf("deliver: %v", err)
			}
		})
		h.Equal("inbox", h.Load(l.Run).Inbox, []store.Item{i})
	}},
	{"M4_AnItemIsNeverLostToAParkingRun", func(h *harness) {
		s := h.Session()
		l := h.Start()
		for range 30 {
			fence := h.Own(s, l)
			i := h.Item()
			c := suite.WithEffect(l.Commit(fence, l.Work()...), store.EffectPark, "")
			var answer store.Committed
			suite.Together(2, func(n int) {
				var err error
				if n == 0 {
					_, err = h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: i})
				} else {
					var all []store.Committed
					if all, err = h.Store.Commit(h.Ctx, []store.Commit{c}); err == nil {
						answer = all[0]
					}
				}
				if err != nil {
					h.Errorf("deliver or park: %v", err)
				}
			})
			if errors.Is(answer.Err, store.ErrUnread) { // the store received the item before the park
				h.Commit(l, suite.WithEffect(suite.Consuming(l.Commit(fence, l.Receive(i)...), i), store.EffectYield, ""))
				continue
			}
			h.Check("park", answer.Err)
			l.Accept(c)
			fence = h.Own(s, l) // the item has made the run ready
			h.Commit(l, suite.WithEffect(suite.Consuming(l.Commit(fence, l.Receive(i)...), i), store.EffectYield, ""))
		}
	}},
	{"K2_AWaitThatBeginsWithAStartIsToldOfIt", func(h *harness) {
		s := h.Session()
		for range 50 {
			l := h.NewLog(suite.Orders, "")
			woken := h.waitBeside(suite.WaitFor(s, suite.Orders), func() error {
				_, err := h.Store.Create(h.Ctx, []store.Create{l.Create()})
				return err
			})
			h.Equal("claim", woken.Claim, []int{0})
			h.Own(s, l)
		}
	}},
	{"K2_AWaitThatBeginsWithADeliveryIsToldOfIt", func(h *harness) {
		s := h.Session()
		l, _ := h.StartOwned(s)
		for range 50 {
			item := h.Item()
			woken := h.waitBeside(suite.WaitFor(s), func() error {
				_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: item})
				return err
			})
			h.Equal("unread items", woken.Unread, []event.RunID{l.Run})
		}
	}},
	{"W3_ConcurrentTriesOfOneCommitAreAppliedOnce", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		c := l.Commit(fence, l.Work()...)
		suite.Together(20, func(int) {
			got, err := h.Store.Commit(h.Ctx, []store.Commit{c})
			if err != nil || got[0].Err != nil || got[0].N != 2 {
				h.Errorf("commit: got %+v, %v", got, err)
			}
		})
		h.Equal("frames", h.Record(l.Run).N, uint64(2))
	}},
	{"F1_OfConcurrentCommitsBehindOneFrameOneIsWritten", func(h *harness) {
		const writers = 20
		l, fence := h.StartOwned(h.Session())
		var commits []store.Commit
		for range writers {
			commits = append(commits, l.Commit(fence, l.Work()...))
		}
		written := make([]bool, writers)
		suite.Together(writers, func(i int) {
			got, err := h.Store.Commit(h.Ctx, commits[i:i+1])
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
		h.Equal("number of written commits", n, 1)
		h.Equal("frames", h.Record(l.Run).N, uint64(2))
	}},
}
