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
	"github.com/flowgen/flowgen/runtime/workflow"
)

// PoolConfig bounds a limit. Zero bounds nothing.
type PoolConfig struct {
	AtOnce  int   `json:"atOnce"`            // weights that may be held at once
	Rate    int   `json:"rate,omitempty"`    // weights that may begin in each perMs, evenly
	PerMs   int64 `json:"perMs,omitempty"`   // 0: a second
	Burst   int   `json:"burst,omitempty"`   // weights that may begin at once by the rate; 0: what 50 ms of it are, at least 1
	Waiting int   `json:"waiting,omitempty"` // weights that may wait; starts beyond are refused. 0: any number
	Refuse  bool  `json:"refuse,omitempty"`  // starts that would have to wait are refused
}

// Pool is a part of a limit as it stands: see [workflow.Limits].
type Pool struct {
	Name string `json:"name"`
	Key  string `json:"key,omitempty"` // empty: it has no keys, or this holds for those without a configuration
	PoolConfig
	Set    bool `json:"set"` // at run time; false: as declared, or not at all
	Paused bool `json:"paused"`
	InUse  int  `json:"inUse"` // weights of what is under way
	Waits  int  `json:"waits"` // weights of what waits
	// Next is when the rate lets something begin; zero: now, or there is no rate.
	Next time.Time `json:"next,omitzero"`
	// Holders are runs that have permits, up to 20: those first that stand still. Set if the filter asks for them.
	Holders []PoolHolder `json:"holders,omitempty"`
}

// PoolHolder is a run that has permits of a limit. A run whose permits are its own keeps them to its end, also while it is paused or
// blocked.
type PoolHolder struct {
	Run      string `json:"run"`
	Workflow string `json:"workflow"`
	Step     string `json:"step,omitempty"` // the step whose attempt has them; left out: the run has them to its end
	Status   string `json:"status"`
	Paused   bool   `json:"paused,omitempty"`
	Weight   int    `json:"weight"`
}

// stands reports whether the run does not go on by itself.
func (h *PoolHolder) stands() bool { return h.Paused || h.Status == string(workflow.StatusBlocked) }

// PoolFilter selects parts of limits. The zero value selects all, of which a page has the first 100.
type PoolFilter struct {
	Name  string `json:"name,omitempty"`
	Limit int    `json:"limit,omitempty"` // 0: 100, at most 1,000
	// Holders asks for the runs that have permits: for it up to 20,000 open runs are looked at.
	Holders bool `json:"holders,omitempty"`
}

// PoolPage has the parts of limits that match: those first for which most waits, then those of which most is in use.
type PoolPage struct {
	Pools []Pool `json:"pools"`
	Total int    `json:"total"` // how many match, whether they are on the page or not
	// Partial says that there are more open runs than were looked at for holders: some may be missing.
	Partial bool `json:"partial,omitempty"`
}

// PoolAction says what to do with a limit, or with one part of it.
type PoolAction struct {
	Verb string `json:"verb"`          // one of [PoolActions]
	Key  string `json:"key,omitempty"` // of the part; empty: the limit as a whole
	// Config is for set, which replaces all of it.
	Config *PoolConfig `json:"config,omitempty"`
	Reason string      `json:"reason,omitempty"` // kept in the journal; refused where there is no journal
}

// PoolActed says that a limit is configured so now.
type PoolActed struct {
	Name string `json:"name"`
	Key  string `json:"key,omitempty"`
	Verb string `json:"verb"`
	// Unused reports that nothing holds or waits for the part of this key, and it had no configuration: the key may be misspelt.
	Unused bool `json:"unused,omitempty"`
}

// poolVerbs are all actions on limits. Each does nothing more when it is asked for again.
var poolVerbs = []struct {
	name string
	do   func(ctx context.Context, l workflow.NamedLimit, c *PoolConfig) error
}{
	{"set", func(ctx context.Context, l workflow.NamedLimit, c *PoolConfig) error { return l.Set(ctx, c.config()) }},
	{"reset", func(ctx context.Context, l workflow.NamedLimit, _ *PoolConfig) error { return l.Reset(ctx) }},
	{"pause", func(ctx context.Context, l workflow.NamedLimit, _ *PoolConfig) error { return l.Pause(ctx) }},
	{"resume", func(ctx context.Context, l workflow.NamedLimit, _ *PoolConfig) error { return l.Resume(ctx) }},
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

func poolOf(i *workflow.LimitInfo) Pool {
	c := i.Config
	return Pool{
		Name: i.Name, Key: i.Key, Set: i.Set, Paused: i.Paused, InUse: i.Held, Waits: i.Waits, Next: utc(i.Next),
		PoolConfig: PoolConfig{AtOnce: c.AtOnce, Rate: c.Rate, PerMs: c.Per.Milliseconds(), Burst: c.Burst, Waiting: c.Waiting, Refuse: c.Refuse},
	}
}

// Pools returns the parts of limits that are busiest.
func (s *Service) Pools(ctx context.Context, f PoolFilter) (PoolPage, error) {
	if err := s.all(RoleViewer, "see limits", ownRuns); err != nil {
		return PoolPage{}, err
	}
	if err := checkPage("parts of limits", f.Limit, 0, nil); err != nil {
		return PoolPage{}, err
	}
	all, err := s.client.Limits().List(ctx)
	if err != nil {
		return PoolPage{}, err
	}
	if f.Name != "" {
		all = slices.DeleteFunc(all, func(i workflow.LimitInfo) bool { return i.Name != f.Name })
	}
	slices.SortStableFunc(all, func(a, b workflow.LimitInfo) int {
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
	// maxHolders bounds how many holders of a part of a limit are reported.
	maxHolders = 20
	// holdersBudget bounds how many open runs are looked at for them.
	holdersBudget = 20_000
)

// fillHolders finds the runs that have permits of parts of limits. It reports whether it has not looked at all open runs: no store keeps
// the holders of a limit, and the record of each run has its permits.
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

// holders adds those of a page of runs that have permits of parts. For one of the runtime's own the run is reported that it works for.
func (s *Service) holders(ctx context.Context, runs []workflow.RunInfo, at map[[2]string]*Pool) error {
	parents := map[workflow.RunID]*workflow.RunInfo{}
	var ids []workflow.RunID
	for i := range runs {
		if r := &runs[i]; len(r.Holds) > 0 && r.Parent != "" && event.Internal(r.Workflow) && parents[r.Parent] == nil {
			parents[r.Parent] = r // until it is known
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

// ActOnPool configures a limit at run time, for all workers at once, or a part of it. A limit that is each
// worker's own is not found.
func (s *Service) ActOnPool(ctx context.Context, name string, a PoolAction) (PoolActed, error) {
	e := s.entry(JournalEntry{Action: a.Verb, Target: "pool:" + name, Detail: a.Key, Reason: a.Reason})
	if a.Config != nil {
		b, _ := json.Marshal(a.Config) // numbers always encode
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
	l, err := s.client.Limits().Named(ctx, name, a.Key)
	if err != nil {
		return PoolActed{}, err
	}
	unused := false
	if a.Key != "" {
		known, err := s.client.Limits().List(ctx)
		if err != nil {
			return PoolActed{}, err
		}
		unused = !slices.ContainsFunc(known, func(i workflow.LimitInfo) bool { return i.Name == name && i.Key == a.Key })
	}
	if err := poolVerbs[i].do(ctx, l, a.Config); err != nil {
		return PoolActed{}, err
	}
	return PoolActed{Name: name, Key: a.Key, Verb: a.Verb, Unused: unused}, nil
}
