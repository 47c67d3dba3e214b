package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// PoolConfig configures a limit. Zero values mean no limit unless a field states otherwise.
type PoolConfig struct {
	AtOnce  int   `json:"atOnce"`            // maximum sum of the weights that are held at the same time
	Rate    int   `json:"rate,omitempty"`    // sum of the weights admitted per period of PerMs, spread evenly
	PerMs   int64 `json:"perMs,omitempty"`   // length of the period of Rate; 0 means one second
	Burst   int   `json:"burst,omitempty"`   // weights that the rate admits at once; 0 means the amount of 50 ms, but at least 1
	Waiting int   `json:"waiting,omitempty"` // maximum sum of the weights that wait, beyond which starts are refused; 0 means no maximum
	Refuse  bool  `json:"refuse,omitempty"`  // whether starts that would have to wait are refused
}

// Pool is the state of a limit or of one of its keys. See [ops.Limits].
type Pool struct {
	Name string `json:"name"`
	Key  string `json:"key,omitempty"` // empty for a limit without keys, and for the configuration that applies to keys without their own
	PoolConfig
	Set    bool `json:"set"` // whether the configuration was set at run time; false means that the declaration applies, if there is one
	Paused bool `json:"paused"`
	InUse  int  `json:"inUse"` // sum of the weights of the permits held
	Waits  int  `json:"waits"` // sum of the weights of the waiting runs and steps
	// Next is the next time at which the rate admits work. It is zero if the rate admits work at
	// present or if there is no rate.
	Next time.Time `json:"next,omitzero"`
	// Holders are up to 20 runs that hold permits, paused and blocked runs first. They are set only
	// if the filter requests them.
	Holders []PoolHolder `json:"holders,omitempty"`
}

// PoolHolder is a run that holds permits of a limit. If the run's own policy uses the limit, the
// run holds the permits until its end, even while it is paused or blocked.
type PoolHolder struct {
	Run      string `json:"run"`
	Workflow string `json:"workflow"`
	Step     string `json:"step,omitempty"` // the step whose attempt holds the permits; empty if the run holds them until its end
	Status   string `json:"status"`
	Paused   bool   `json:"paused,omitempty"`
	Weight   int    `json:"weight"`
}

// stands reports whether the run is paused or blocked.
func (h *PoolHolder) stands() bool { return h.Paused || h.Status == string(workflow.StatusBlocked) }

// PoolFilter selects limits and keys. The zero value selects all. A page contains the first 100
// unless Limit is set.
type PoolFilter struct {
	Name  string `json:"name,omitempty"`
	Limit int    `json:"limit,omitempty"` // entries per page; 0 means 100, the maximum is 1,000
	// Holders requests the runs that hold permits. To find them, up to 20,000 open runs are read.
	Holders bool `json:"holders,omitempty"`
}

// PoolPage contains the matching limits and keys. They are sorted by the weights that wait and then
// by the weights in use, the largest sum first.
type PoolPage struct {
	Pools []Pool `json:"pools"`
	Total int    `json:"total"` // number of matching limits and keys, including those not on the page
	// Partial reports whether some open runs were not read for the holders, so that holders may be
	// missing.
	Partial bool `json:"partial,omitempty"`
}

// PoolAction is an action to apply to a limit or to one of its keys.
type PoolAction struct {
	Verb string `json:"verb"`          // one of [PoolActions]
	Key  string `json:"key,omitempty"` // empty for the limit as a whole
	// Config is the complete new configuration. Only the verb set uses it.
	Config *PoolConfig `json:"config,omitempty"`
	Reason string      `json:"reason,omitempty"` // recorded in the journal; refused if the service has no journal
}

// PoolActed is the resulting configuration of a limit.
type PoolActed struct {
	Name string `json:"name"`
	Key  string `json:"key,omitempty"`
	Verb string `json:"verb"`
	// Unused reports that the key was unknown: it had no configuration, and no run held or waited
	// for its permits. The key may be misspelled.
	Unused bool `json:"unused,omitempty"`
}

// poolVerbs lists all actions on limits. All of them are idempotent.
var poolVerbs = []struct {
	name string
	do   func(ctx context.Context, l ops.NamedLimit, c *PoolConfig) error
}{
	{"set", func(ctx context.Context, l ops.NamedLimit, c *PoolConfig) error { return l.Set(ctx, c.config()) }},
	{"reset", func(ctx context.Context, l ops.NamedLimit, _ *PoolConfig) error { return l.Reset(ctx) }},
	{"pause", func(ctx context.Context, l ops.NamedLimit, _ *PoolConfig) error { return l.Pause(ctx) }},
	{"resume", func(ctx context.Context, l ops.NamedLimit, _ *PoolConfig) error { return l.Resume(ctx) }},
}

// PoolActions returns the verbs of all actions on limits.
func PoolActions() []string {
	var all []string
	for _, v := range poolVerbs {
		all = append(all, v.name)
	}
	return all
}

func (c *PoolConfig) config() limit.Config {
	return limit.Config{AtOnce: c.AtOnce, Rate: c.Rate, Per: time.Duration(c.PerMs) * time.Millisecond, Burst: c.Burst, Waiting: c.Waiting, Refuse: c.Refuse}
}

func poolOf(i *ops.LimitInfo) Pool {
	c := i.Config
	return Pool{
		Name: i.Name, Key: i.Key, Set: i.Set, Paused: i.Paused, InUse: i.Held, Waits: i.Waits, Next: utc(i.Next),
		PoolConfig: PoolConfig{AtOnce: c.AtOnce, Rate: c.Rate, PerMs: c.Per.Milliseconds(), Burst: c.Burst, Waiting: c.Waiting, Refuse: c.Refuse},
	}
}

// Pools returns a page of limits and keys, the busiest first.
func (s *Service) Pools(ctx context.Context, f PoolFilter) (PoolPage, error) {
	if err := s.all(RoleViewer, "see limits", ownRuns); err != nil {
		return PoolPage{}, err
	}
	if err := checkPage("parts of limits", f.Limit, 0, nil); err != nil {
		return PoolPage{}, err
	}
	all, err := s.ops.Limits().List(ctx)
	if err != nil {
		return PoolPage{}, err
	}
	if f.Name != "" {
		all = slices.DeleteFunc(all, func(i ops.LimitInfo) bool { return i.Name != f.Name })
	}
	slices.SortStableFunc(all, func(a, b ops.LimitInfo) int {
		return cmp.Or(cmp.Compare(b.Waits, a.Waits), cmp.Compare(b.Held, a.Held))
	})
	page := PoolPage{Pools: []Pool{}, Total: len(all)}
	for i := range all[:min(len(all), cmp.Or(f.Limit, 100))] {
		page.Pools = append(page.Pools, poolOf(&all[i]))
	}
	if f.Holders {
		page.Partial, err = s.fillHolders(ctx, page.Pools)
	}
	return page, err
}

const (
	// maxHolders is the maximum number of holders that are returned for a limit or key.
	maxHolders = 20
	// holdersBudget is the maximum number of open runs that are read for the holders.
	holdersBudget = 20_000
)

// fillHolders finds the runs that hold permits of the limits. partial reports whether some open
// runs were not read. Stores do not index the holders of a limit. The record of each run contains
// its permits.
func (s *Service) fillHolders(ctx context.Context, pools []Pool) (partial bool, err error) {
	at := map[[2]string]*Pool{}
	for i := range pools {
		if pools[i].InUse > 0 {
			at[[2]string{pools[i].Name, pools[i].Key}] = &pools[i]
		}
	}
	if len(at) == 0 {
		return false, nil
	}
	f := workflow.Filter{Internal: true, Budget: holdersBudget}
	for _, s := range Statuses() {
		if !workflow.Status(s).Terminal() {
			f.Statuses = append(f.Statuses, workflow.Status(s))
		}
	}
	for looked := 0; ; {
		page, err := s.client.Page(ctx, f, maxLimit)
		if err != nil {
			return false, err
		}
		if err := s.holders(ctx, page.Runs, at); err != nil {
			return false, err
		}
		looked += page.Looked
		if f.Cursor = page.Cursor; f.Cursor == "" {
			break
		}
		if partial = looked >= holdersBudget; partial {
			break
		}
	}
	for _, p := range at {
		slices.SortStableFunc(p.Holders, func(a, b PoolHolder) int {
			if a.stands() == b.stands() {
				return 0
			}
			if a.stands() {
				return -1
			}
			return 1
		})
		p.Holders = p.Holders[:min(len(p.Holders), maxHolders)]
	}
	return partial, nil
}

// holders adds the runs of a page that hold permits to the holders in at. If the runtime itself
// created the run, holders adds the parent for which that run works.
func (s *Service) holders(ctx context.Context, runs []workflow.RunInfo, at map[[2]string]*Pool) error {
	parents := map[workflow.RunID]*workflow.RunInfo{}
	var ids []workflow.RunID
	for i := range runs {
		if r := &runs[i]; len(r.Holds) > 0 && r.Parent != "" && event.Internal(r.Workflow) && parents[r.Parent] == nil {
			parents[r.Parent] = r // placeholder until the parent has been read
			ids = append(ids, r.Parent)
		}
	}
	if len(ids) > 0 {
		infos, errs := s.client.Infos(ctx, ids...)
		for i := range infos {
			switch {
			case errs[i] == nil:
				parents[ids[i]] = &infos[i]
			case !errors.Is(errs[i], workflow.ErrRunNotFound):
				return errs[i]
			}
		}
	}
	for i := range runs {
		r, step := &runs[i], ""
		if name, is := event.StepOfRun(r.Workflow); is {
			step = name
		}
		shown := r
		if event.Internal(r.Workflow) && parents[r.Parent] != nil {
			shown = parents[r.Parent]
		}
		for _, h := range r.Holds {
			if p := at[[2]string{h.Limit, h.Key}]; p != nil {
				p.Holders = append(p.Holders, PoolHolder{
					Run: string(shown.ID), Workflow: shown.Workflow, Step: step, Status: string(shown.Status), Paused: shown.Paused, Weight: h.Weight,
				})
			}
		}
	}
	return nil
}

// ActOnPool configures a limit or one of its keys at run time. The configuration applies to all
// workers immediately. A limit that is local to each worker is not found.
func (s *Service) ActOnPool(ctx context.Context, name string, a PoolAction) (PoolActed, error) {
	e := s.entry(JournalEntry{Action: a.Verb, Target: "pool:" + name, Detail: a.Key, Reason: a.Reason})
	if a.Config != nil {
		b, _ := json.Marshal(a.Config) // the encoding cannot fail, because the configuration contains only numbers
		e.Detail = a.Key + string(b)
	}
	return recorded(ctx, s, &e, func(ctx context.Context) (PoolActed, error) {
		a.Reason = left(&e, a.Reason, false)
		return s.actOnPool(ctx, name, a)
	}, func(PoolActed, *JournalEntry) {})
}

// actOnPool is like [Service.ActOnPool], but does not write the journal.
func (s *Service) actOnPool(ctx context.Context, name string, a PoolAction) (PoolActed, error) {
	if err := s.all(RoleOperator, a.Verb+" limits", ownRuns); err != nil {
		return PoolActed{}, err
	}
	i := slices.Index(PoolActions(), a.Verb)
	switch {
	case i < 0:
		return PoolActed{}, checkOneOf("action on limits", a.Verb, PoolActions())
	case (a.Config != nil) != (a.Verb == "set"):
		return PoolActed{}, &InputError{What: "set takes a configuration, and no other action does", Fix: "give all of it with set, and none with " + a.Verb}
	case a.Config != nil && a.Config.AtOnce == 0 && a.Config.Rate == 0:
		return PoolActed{}, &InputError{What: "a limit that bounds nothing", Fix: "give atOnce or rate; pause prevents starts, and reset removes the settings"}
	case a.Config != nil && (a.Config.PerMs < 0 || a.Config.PerMs > maxDelay):
		return PoolActed{}, &InputError{What: fmt.Sprintf("a rate by %d ms", a.Config.PerMs), Fix: "give milliseconds, or nothing: a second"}
	}
	if err := checkReason(a.Verb, a.Reason, false); err != nil {
		return PoolActed{}, err
	}
	l, err := s.ops.Limits().Named(ctx, name, a.Key)
	if err != nil {
		return PoolActed{}, err
	}
	unused := false
	if a.Key != "" {
		known, err := s.ops.Limits().List(ctx)
		if err != nil {
			return PoolActed{}, err
		}
		unused = !slices.ContainsFunc(known, func(i ops.LimitInfo) bool { return i.Name == name && i.Key == a.Key })
	}
	if err := poolVerbs[i].do(ctx, l, a.Config); err != nil {
		return PoolActed{}, err
	}
	return PoolActed{Name: name, Key: a.Key, Verb: a.Verb, Unused: unused}, nil
}
