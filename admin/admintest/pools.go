package admintest

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// pool returns the state of the limit of a customer.
func (s *Scene) pool(key string) admin.Pool {
	s.Helper()
	page, err := s.Service.Pools(s.ctx(), admin.PoolFilter{Name: customers.All().Name(), Limit: 1000})
	if err != nil {
		s.Fatal(err)
	}
	i := slices.IndexFunc(page.Pools, func(p admin.Pool) bool { return p.Key == key })
	if i < 0 {
		return admin.Pool{}
	}
	return page.Pools[i]
}

func configuresLimits(s *Scene) { //nolint:funlen // one scene, from the first run to the last
	const ada, bob = "ada/1", "bob"
	name := customers.All().Name()
	var visits []*workflow.Run[string]
	begin := func(customer string) {
		s.Helper()
		run, err := visit.Start(s.ctx(), s.Client, customer)
		if err != nil {
			s.Fatal(err)
		}
		visits = append(visits, run)
	}
	for _, customer := range []string{ada, ada, ada, bob} {
		begin(customer)
	}
	s.Until(string(visits[0].ID()), "waiting")
	s.Until(string(visits[3].ID()), "waiting")
	want := admin.Pool{Name: name, Key: ada, PoolConfig: admin.PoolConfig{AtOnce: 1}, InUse: 1, Waits: 2}
	same(s, "a part that is full", s.pool(ada), want)
	page, err := s.Service.Pools(s.ctx(), admin.PoolFilter{Name: name, Limit: 1})
	if err != nil || page.Total != 3 || len(page.Pools) != 1 {
		s.Fatalf("got %+v, %v", page, err)
	}
	same(s, "the busiest", page.Pools[0], want)

	act := func(a admin.PoolAction) {
		s.Helper()
		if got, err := s.Service.ActOnPool(s.ctx(), name, a); err != nil || got != (admin.PoolActed{Name: name, Key: a.Key, Verb: a.Verb}) {
			s.Errorf("%s: got %+v, %v", a.Verb, got, err)
		}
	}
	config := admin.PoolConfig{AtOnce: 2, Rate: 1000, PerMs: 10, Burst: 5, Waiting: 7}
	act(admin.PoolAction{Verb: "set", Key: ada, Config: &config})
	s.Until(string(visits[1].ID()), "waiting")
	got := s.pool(ada)
	if got.PoolConfig != config || !got.Set || got.Paused || got.InUse != 2 || got.Waits != 1 {
		s.Errorf("set: got %+v", got)
	}
	if other := s.pool(bob); other.Set || other.AtOnce != 1 {
		s.Errorf("set: another part is %+v", other)
	}
	act(admin.PoolAction{Verb: "pause"}) // the action applies to all keys without a configuration of their own
	if got := s.pool(bob); !got.Paused || got.AtOnce != 1 {
		s.Errorf("pause: got %+v", got)
	}
	act(admin.PoolAction{Verb: "resume"})
	if got := s.pool(bob); got.Paused || got.Set || got.AtOnce != 1 {
		s.Errorf("resume: got %+v", got)
	}
	act(admin.PoolAction{Verb: "reset"})
	act(admin.PoolAction{Verb: "reset", Key: ada})
	for _, key := range []string{ada, bob, ""} {
		if got := s.pool(key); got.Set || got.AtOnce != 1 || got.Paused {
			s.Errorf("reset: got %+v", got)
		}
	}
	for _, run := range visits {
		if err := run.Cancel(s.ctx(), ""); err != nil {
			s.Error(err)
		}
	}
	for _, run := range visits {
		_, _ = run.Result(s.ctx())
	}
	if got := s.pool(ada); got.InUse != 0 || got.Waits != 0 {
		s.Errorf("when all have ended: got %+v", got)
	}
}

func refusesLimits(s *Scene) {
	name := customers.All().Name()
	for what, a := range map[string]admin.PoolAction{
		"no action":           {},
		"an unknown action":   {Verb: "explode"},
		"set nothing":         {Verb: "set"},
		"set no bound":        {Verb: "set", Config: &admin.PoolConfig{Waiting: 3}},
		"set less than none":  {Verb: "set", Config: &admin.PoolConfig{AtOnce: -1}},
		"set too much":        {Verb: "set", Config: &admin.PoolConfig{AtOnce: 1 << 40}},
		"set a bad time":      {Verb: "set", Config: &admin.PoolConfig{Rate: 1, PerMs: -1}},
		"set too long a time": {Verb: "set", Config: &admin.PoolConfig{Rate: 1, PerMs: 1 << 62}},
		"configure a pause":   {Verb: "pause", Config: &admin.PoolConfig{AtOnce: 1}},
		"a bad key":           {Verb: "pause", Key: "\x00"},
	} {
		_, err := s.Service.ActOnPool(s.ctx(), name, a)
		problem(s, what, err, http.StatusBadRequest, admin.CodeInput)
	}
	_, err := s.Service.ActOnPool(s.ctx(), "nobody's", admin.PoolAction{Verb: "pause"})
	problem(s, "a limit that is not there", err, http.StatusNotFound, admin.CodeNotFound)
	for _, f := range []admin.PoolFilter{{Limit: -1}, {Limit: 1001}} {
		_, err := s.Service.Pools(s.ctx(), f)
		problem(s, fmt.Sprintf("list by %+v", f), err, http.StatusBadRequest, admin.CodeInput)
	}
	ended, cancel := context.WithCancel(s.ctx())
	cancel()
	_, err = s.Service.Pools(ended, admin.PoolFilter{})
	problem(s, "limits", err, http.StatusServiceUnavailable, admin.CodeInterrupted)
}

// Visit starts a run that requires the only permit of a customer, waits until the run holds the
// permit, and returns the name of the limit.
func (s *Scene) Visit(customer string) (limit string) {
	s.Helper()
	run, err := visit.Start(s.ctx(), s.Client, customer)
	if err != nil {
		s.Fatal(err)
	}
	s.Until(string(run.ID()), "waiting")
	return customers.All().Name()
}
