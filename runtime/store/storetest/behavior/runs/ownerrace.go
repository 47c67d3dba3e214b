package runs

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// bearUntil creates runs for a session from several goroutines until the store refuses. Meanwhile,
// another goroutine calls ends, which must end the session. bearUntil fails the test if the store
// has lost a created run.
func (h *harness) bearUntil(s store.SessionID, ends func() error) {
	h.Helper()
	const starters, before = 4, 5
	var created sync.Map // run IDs whose creation the store has confirmed
	var n atomic.Int64
	under := make(chan struct{})
	suite.Together(starters+1, func(i int) {
		if i == starters {
			select {
			case <-under:
			case <-h.Ctx.Done():
				h.Errorf("%d runs were created in all this time, want at least %d", n.Load(), before)
				return
			}
			if err := ends(); err != nil {
				h.Errorf("end of the session: %v", err)
			}
			return
		}
		for {
			c := h.NewLog(suite.Orders, "").Create()
			h.OwnedBy(s)(&c)
			got, err := h.Store.Create(h.Ctx, []store.Create{c})
			if err == nil {
				err = got[0].Err
			}
			switch {
			case errors.Is(err, store.ErrExpired):
				return
			case err != nil || got[0].Fence != c.Owner.Fence():
				h.Errorf("create: got %+v, %v", got, err)
				return
			}
			created.Store(c.Run, true)
			if n.Add(1) == before {
				close(under)
			}
		}
	})
	for len(h.Inspect().Owned[s]) > 0 { // a store may recover only some of the runs in one call
		h.Check("end of the session", ends())
	}
	snap := h.Inspect()
	h.Equal("number of runs", len(snap.Runs), int(n.Load()))
	for id, r := range snap.Runs {
		if _, answered := created.Load(id); !answered {
			h.Fatalf("run %s was created and refused", id)
		}
		if r.QueueState != store.StateReady || r.Fence != (store.Fence{Epoch: 2}) || r.Recoveries != 1 {
			h.Fatalf("run %s: got %s under %v with %d recoveries, want it recovered once", id, r.QueueState, r.Fence, r.Recoveries)
		}
	}
}

var ownerRaceBehaviors = []behavior{
	{"C1_OfManyLocalStartsOfOneWorkflowIDOneIsOwned", func(h *harness) {
		const starters = 20
		wid := h.WorkflowID("order")
		var requests []store.Create
		for range starters {
			c := h.NewLog(suite.Orders, wid).Create()
			h.OwnedBy(h.Session())(&c)
			requests = append(requests, c)
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
		owned := map[store.SessionID][]event.RunID{}
		for i, a := range answers {
			want := store.Created{Run: answers[0].Run}
			if a.New {
				owner := requests[i].Owner
				want.New, want.Fence = true, owner.Fence()
				owned[owner.Session] = []event.RunID{requests[i].Run}
			}
			h.Equal("answer", a, want)
		}
		h.Equal("number of owners", len(owned), 1)
		h.Equal("owned", h.Inspect().Owned, owned)
	}},
	{"C1_ConcurrentTriesOfOneLocalStartAreOneRun", func(h *harness) {
		s := h.Session()
		c := h.NewLog(suite.Orders, h.WorkflowID("order")).Create()
		h.OwnedBy(s)(&c)
		suite.Together(20, func(int) {
			got, err := h.Store.Create(h.Ctx, []store.Create{c})
			if err != nil || got[0] != (store.Created{Run: c.Run, New: true, Fence: c.Owner.Fence()}) {
				h.Errorf("create: got %+v, %v", got, err)
			}
		})
		h.Equal("owned", h.Reconcile(s), []store.Owned{{Run: c.Run, Fence: c.Owner.Fence()}})
	}},
	{"NoLocalStartIsLostToASessionThatIsClosed", func(h *harness) {
		s := h.Session()
		h.bearUntil(s, func() error { return h.Store.CloseSession(h.Ctx, 0, s) })
	}},
	{"NoLocalStartIsLostToASessionThatIsRecovered", func(h *harness) {
		dead := h.Session()
		alive := h.Session()
		h.Silence(alive)
		h.bearUntil(dead, func() error {
			_, err := h.Store.Claim(h.Ctx, store.Claim{Session: alive, Token: h.IDs.Token()})
			return err
		})
	}},
}
