package ops

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/deploy"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Deploys contains the builds of the workers of a store.
type Deploys struct {
	At     time.Time // time of the state, by the clock of the store
	Builds []Deploy  // the build that was first seen last is first
	// Read is the number of open runs that were read. Inexact reports that there are more, so Needs,
	// Blocked and BlockedRuns of all builds are lower bounds.
	Read    int
	Inexact bool
}

// Deploy describes a build: the workers that execute the same program.
type Deploy struct {
	Build string // see worker.Config.Build
	// Workers contains the names of the live workers, sorted. Claims reports whether one of them
	// claims runs. The workers of a retired build stop claiming.
	Workers []string
	Claims  bool
	// First and Last are the times at which live workers of the build were first and last seen. They
	// are zero if unknown, because the workers belong to a release that does not record them.
	First, Last time.Time
	// Percent is the share of the new runs of pinned workflows. It is 0 for all builds if no
	// distribution is set.
	Percent int
	// Retired is the time at which the build was retired. It is zero if the build is in use. To is
	// the build that receives its pinned runs; it is empty if any build may receive them.
	Retired time.Time
	To      string
	// Started is the number of runs that workers of the build have begun, among the newest 1,000
	// runs of the store that no internal run is part of.
	Started int
	// Needs is the number of open runs that need the build; see [Client.Drained].
	Needs int
	// Blocked contains the first blocked runs that the build has executed last, at most 10 of them.
	// BlockedRuns is their number.
	Blocked     []BlockedRun
	BlockedRuns int
}

// BlockedRun is a run that no live worker can continue, because its code does not match the log of
// the run.
type BlockedRun struct {
	Run      workflow.RunID
	Workflow string
	Queue    string
	Reason   string // see workflow.RunInfo.Blocked; empty: unknown
}

// UnknownBuildError is the error for a build that has no live workers and is not recorded.
type UnknownBuildError struct {
	Build string
	Known []string // known builds, the build that was first seen last is first
}

// Error names the known builds.
func (e *UnknownBuildError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("build %q is unknown: no worker has run on this store", e.Build)
	}
	return fmt.Sprintf("build %q is unknown: the known builds are %s", e.Build, strings.Join(e.Known, ", "))
}

// BuildStateError is the error for a change that the state of a build does not allow.
type BuildStateError struct {
	Build  string
	Reason string // with the fix
}

// Error names the build and the reason.
func (e *BuildStateError) Error() string { return fmt.Sprintf("build %q %s", e.Build, e.Reason) }

const (
	// startedSample is the number of runs of which Deploys reads which build has begun them.
	startedSample = 1000
	// deploysBudget is the number of open runs that Deploys reads.
	deploysBudget = 20_000
	// shownBlocked is the maximum number of blocked runs of a build in Deploys.
	shownBlocked = 10
)

// Deploys returns the builds that are recorded, that have live workers, or that open runs need. It
// reads the logs of at most 20,000 open runs. The error matches workflow.ErrNotSupported if the
// store keeps no entries or cannot be searched.
func (c *Client) Deploys(ctx context.Context) (Deploys, error) {
	const what = "list deployments"
	b, err := c.builds(ctx, what)
	if err != nil {
		return Deploys{}, err
	}
	all := map[string]*Deploy{}
	get := func(build string) *Deploy {
		if all[build] == nil {
			all[build] = b.deploy(build)
		}
		return all[build]
	}
	for _, build := range b.known() {
		get(build)
	}
	read, whole, err := c.eachOpen(ctx, deploysBudget, func(r *openRun) error {
		for _, build := range slices.Compact([]string{r.pin, r.build}) {
			if build == "" {
				continue
			}
			if why, certain := b.needs(r, build); why != "" && certain {
				get(build).Needs++
			}
		}
		if r.Status == event.StatusBlocked && r.build != "" {
			return c.addBlocked(ctx, get(r.build), r)
		}
		return nil
	})
	if err == nil {
		err = c.countStarted(ctx, func(build string) {
			if d := all[build]; d != nil {
				d.Started++
			}
		})
	}
	if err != nil {
		return Deploys{}, fmt.Errorf("%s: %w", what, err)
	}
	return Deploys{At: b.now, Builds: b.sorted(all), Read: read, Inexact: !whole}, nil
}

func (c *Client) addBlocked(ctx context.Context, d *Deploy, r *openRun) error {
	if d.BlockedRuns++; d.BlockedRuns > shownBlocked {
		return nil
	}
	info, err := c.blockedInfo(ctx, r)
	d.Blocked = append(d.Blocked, BlockedRun{Run: r.Run, Workflow: r.Route.Workflow, Queue: r.plain.Queue, Reason: info.Blocked})
	return err
}

// builds is the state of the builds of a store: the record, and the sessions of the workers.
type builds struct {
	now     time.Time
	state   deploy.State
	workers map[string][]string // names of live workers by build
	claims  map[string]bool     // builds whose live workers claim runs
	codes   map[string]bool     // builds whose live workers claim runs of workflows of programs
	serves  map[store.Route]map[string]bool
	owners  map[store.SessionID]string // builds of sessions
	lapsed  map[string]bool            // builds of expired sessions that the store has not recovered
}

// builds reads the state of the builds. what describes the operation in errors.
func (c *Client) builds(ctx context.Context, what string) (*builds, error) {
	entries, err := capability[store.Entries](c, what)
	if err != nil {
		return nil, err
	}
	teller, err := capability[store.FleetTeller](c, what)
	if err != nil {
		return nil, err
	}
	state, err := deploy.Load(ctx, entries)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	fleet, err := teller.Fleet(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	b := &builds{
		now: fleet.Now, state: state, workers: map[string][]string{}, claims: map[string]bool{}, codes: map[string]bool{},
		serves: map[store.Route]map[string]bool{}, owners: map[store.SessionID]string{}, lapsed: map[string]bool{},
	}
	for i := range fleet.Sessions {
		b.add(&fleet.Sessions[i])
	}
	return b, nil
}

func (b *builds) add(s *store.FleetSession) {
	build := BuildOf(s.Fingerprint)
	if build == "" { // a session without a fingerprint belongs to a client that ends a run itself
		return
	}
	b.owners[s.Session] = build
	if !s.Live(b.now) { // until its recovery begins, a heartbeat of its worker makes it live again
		b.lapsed[build] = true
		return
	}
	for _, route := range s.Routes {
		plain, _ := plainRoute(route)
		if b.serves[plain] == nil {
			b.serves[plain] = map[string]bool{}
		}
		b.serves[plain][build] = true
		b.codes[build] = b.codes[build] || !event.Internal(plain.Workflow)
	}
	if b.state.Build(build) == nil && len(s.Routes) > 0 && !slices.ContainsFunc(s.Routes, ofProgram) {
		return // a worker of flowctl, whose build is no deployment
	}
	if at, found := slices.BinarySearch(b.workers[build], s.Worker); !found {
		b.workers[build] = slices.Insert(b.workers[build], at, s.Worker)
	}
	b.claims[build] = b.claims[build] || len(s.Routes) > 0
}

// ofProgram reports whether the runs of a route execute code of a program, and not of the runtime.
func ofProgram(r store.Route) bool { return !event.RuntimeCode(r.Workflow) }

// receivers returns the builds in use, except one, whose live workers execute workflows of programs.
// They are sorted.
func (b *builds) receivers(s *deploy.State, except string) (all []string) {
	for build, executes := range b.codes {
		if executes && build != except && !s.Retired(build) {
			all = append(all, build)
		}
	}
	slices.Sort(all)
	return all
}

// known returns the builds that are recorded or have live workers, the newest first.
func (b *builds) known() []string {
	all := slices.Collect(maps.Keys(b.workers))
	for i := range b.state.Builds {
		if id := b.state.Builds[i].ID; len(b.workers[id]) == 0 {
			all = append(all, id)
		}
	}
	slices.SortFunc(all, b.newestFirst)
	return all
}

func (b *builds) newestFirst(x, y string) int {
	first := func(id string) (t time.Time) {
		if r := b.state.Build(id); r != nil {
			t = r.First
		}
		return t
	}
	return cmp.Or(first(y).Compare(first(x)), cmp.Compare(x, y))
}

// check returns an error if the build is not known.
func (b *builds) check(build string) error {
	if b.state.Build(build) != nil || len(b.workers[build]) > 0 {
		return nil
	}
	return &UnknownBuildError{Build: build, Known: b.known()}
}

// deploy returns what the record and the sessions contain about a build.
func (b *builds) deploy(build string) *Deploy {
	d := &Deploy{Build: build, Workers: b.workers[build], Claims: b.claims[build]}
	if r := b.state.Build(build); r != nil {
		d.First, d.Last, d.Percent, d.Retired, d.To = r.First, r.Last, r.Percent, r.Retired, r.To
	}
	if len(d.Workers) > 0 {
		d.Last = b.now
	}
	return d
}

func (b *builds) sorted(all map[string]*Deploy) []Deploy {
	list := make([]Deploy, 0, len(all))
	for _, build := range slices.SortedFunc(maps.Keys(all), b.newestFirst) {
		list = append(list, *all[build])
	}
	return list
}
