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

// PoolConfig configures a limit. Zero values mean no limit.
type PoolConfig struct {
	AtOnce  int   `json:"atOnce"`            // sum of the weights that may be held at the same time
	Rate    int   `json:"rate,omitempty"`    // sum of the weights admitted per perMs, spread evenly
	PerMs   int64 `json:"perMs,omitempty"`   // 0 means one second
	Burst   int   `json:"burst,omitempty"`   // weights that the rate admits at once; 0 means the amount of 50 ms, at least 1
	Waiting int   `json:"waiting,omitempty"` // weights that may wait; further starts are refused. 0 means any number
	Refuse  bool  `json:"refuse,omitempty"`  // refuse starts that would have to wait
}

// Pool is the state of a limit or of one of its keys, see [ops.Limits].
type Pool struct {
	Name string `json:"name"`
	Key  string `json:"key,omitempty"` // empty if the limit has no keys, or for the configuration of all keys without one of their own
	PoolConfig
	Set    bool `json:"set"` // configured at run time; false means as declared, or not configured
	Paused bool `json:"paused"`
	InUse  int  `json:"inUse"` // weights of the permits held
	Waits  int  `json:"waits"` // weights of the waiting runs and steps
	// Next is the next time at which the rate admits something. It is zero if that is now or there
	// is no rate.
	Next time.Time `json:"next,omitzero"`
	// Holders are up to 20 runs that hold permits, stalled ones first. It is set only if requested
	// by the filter.
	Holders []PoolHolder `json:"holders,omitempty"`
}

// PoolHolder is a run that holds permits of a limit. A run whose own policy uses the limit holds
// them until its end, also while it is paused or blocked.
type PoolHolder struct {
	Run      string `json:"run"`
	Workflow string `json:"workflow"`
	Step     string `json:"step,omitempty"` // the step whose attempt holds them; empty if the run holds them until its end
	Status   string `json:"status"`
	Paused   bool   `json:"paused,omitempty"`
	Weight   int    `json:"weight"`
}

// stands reports whether the run is paused or blocked.
func (h *PoolHolder) stands() bool { return h.Paused || h.Status == string(workflow.StatusBlocked) }

// PoolFilter selects limits and keys. The zero value selects all; a page contains the first 100.
type PoolFilter struct {
	Name  string `json:"name,omitempty"`
	Limit int    `json:"limit,omitempty"` // 0 means 100, the maximum is 1,000
	// Holders requests the runs that hold permits. Up to 20,000 open runs are read for it.
	Holders bool `json:"holders,omitempty"`
}

// PoolPage contains the limits and keys that match, those with the most waiting weights first, then
// those with the most weights in use.
type PoolPage struct {
	Pools []Pool `json:"pools"`
	Total int    `json:"total"` // number of matches, including those not on the page
	// Partial reports that not all open runs were read for the holders, so some may be missing.
	Partial bool `json:"partial,omitempty"`
}

// PoolAction describes what to do with a limit or one of its keys.
type PoolAction struct {
	Verb string `json:"verb"`          // one of [PoolActions]
	Key  string `json:"key,omitempty"` // empty means the limit as a whole
	// Config is the complete new configuration for the verb set.
	Config *PoolConfig `json:"config,omitempty"`
	Reason string      `json:"reason,omitempty"` // kept in the journal; refused if there is no journal
}

// PoolActed is the resulting configuration of a limit.
type PoolActed struct {
	Name string `json:"name"`
	Key  string `json:"key,omitempty"`
	Verb string `json:"verb"`
	// Unused reports that the key was unknown: no run holds or waits for its permits, and it had no
	// configuration. It may be misspelled.
	Unused bool `json:"unused,omitempty"`
}

// poolVerbs are all actions on limits. All of them are idempotent.
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

// Pools returns the busiest limits and keys.
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

// fillHolders finds the runs that hold permits of limits. It reports whether some open runs were
// not read. Stores do not index the holders of a limit; the record of each run contains its
// permits.
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

// holders adds the runs of a page that hold permits. For a run of the runtime itself it adds the
// run that it works for.
func (s *Service) holders(ctx context.Context, runs []workflow.RunInfo, at map[[2]string]*Pool) error {
	parents := map[workflow.RunID]*workflow.RunInfo{}
	var ids []workflow.RunID
	for i := range runs {
		if r := &runs[i]; len(r.Holds) > 0 && r.Parent != "" && event.Internal(r.Workflow) && parents[r.Parent] == nil {
			parents[r.Parent] = r // until the parent is known
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

// ActOnPool configures a limit or one of its keys at run time, for all workers at once. A limit
// that is local to each worker is not found.
func (s *Service) ActOnPool(ctx context.Context, name string, a PoolAction) (PoolActed, error) {
	e := s.entry(JournalEntry{Action: a.Verb, Target: "pool:" + name, Detail: a.Key, Reason: a.Reason})
	if a.Config != nil {
		b, _ := json.Marshal(a.Config) // numbers can always be encoded
		e.Detail = a.Key + string(b)
	}
	return recorded(ctx, s, &e, func(ctx context.Context) (PoolActed, error) {
		a.Reason = left(&e, a.Reason, false)
		return s.actOnPool(ctx, name, a)
	}, func(PoolActed, *JournalEntry) {})
}

// actOnPool is [Service.ActOnPool] without the journal.
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
		return PoolActed{}, &InputError{What: "a limit that bounds nothing", Fix: "give atOnce or rate; pause lets nothing begin, and reset takes back what was set"}
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
