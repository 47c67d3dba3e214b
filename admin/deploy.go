package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/ops"
)

// Deploys contains the builds of the workers of a store. See [ops.Client.Deploys].
type Deploys struct {
	At     time.Time `json:"at"`
	Builds []Deploy  `json:"builds"` // the build that was first seen last is first
	Read   int       `json:"read"`   // number of open runs that were read
	// Partial reports that some open runs were not read, so needs and blockedRuns are lower bounds.
	Partial bool `json:"partial,omitempty"`
}

// Deploy describes a build: the workers that execute the same program.
type Deploy struct {
	Build     string    `json:"build"`
	Workers   []string  `json:"workers"`            // names of the live workers
	Claims    bool      `json:"claims"`             // whether one of them claims runs
	FirstSeen time.Time `json:"firstSeen,omitzero"` // time at which a live worker was first seen; zero if unknown
	LastSeen  time.Time `json:"lastSeen,omitzero"`
	Percent   int       `json:"percent"`          // share of the new runs of pinned workflows; 0 for all builds if no distribution is set
	Retired   time.Time `json:"retired,omitzero"` // time at which the build was taken out of use
	To        string    `json:"to,omitempty"`     // build that receives the pinned runs of a retired one; empty if any build may
	Started   int       `json:"started"`          // number of runs that the build has begun, among the newest 1,000 runs
	Needs     int       `json:"needs"`            // number of open runs that need the build
	// BlockedRuns is the number of blocked runs that the build has executed last. Blocked contains at
	// most 10 of them.
	BlockedRuns int          `json:"blockedRuns"`
	Blocked     []BlockedRun `json:"blocked,omitempty"`
}

// BlockedRun is a run whose log does not match the code of any live worker.
type BlockedRun struct {
	Run      string `json:"run"`
	Workflow string `json:"workflow"`
	Queue    string `json:"queue"`
	Reason   string `json:"reason,omitempty"`
}

// Drained is the answer to the question whether a build can be removed. See [ops.Client.Drained].
type Drained struct {
	Build  string `json:"build"`
	Answer string `json:"answer"`           // one of the answers below
	Reason string `json:"reason,omitempty"` // why the build is not drained
	// Workers is the number of live workers of the build, and Claims reports whether one of them
	// claims runs.
	Workers int  `json:"workers"`
	Claims  bool `json:"claims"`
	// Needs is the number of open runs that need the build, and Unsure the number of those that may
	// need it. Runs contains at most 20 of them.
	Needs  int          `json:"needs"`
	Unsure int          `json:"unsure"`
	Runs   []NeedingRun `json:"runs,omitempty"`
	Read   int          `json:"read"` // number of open runs that were read
}

// NeedingRun is a run that needs a build, or may need it.
type NeedingRun struct {
	Run      string `json:"run"`
	Workflow string `json:"workflow"`
	Queue    string `json:"queue"`
	Status   string `json:"status"`
	Reason   string `json:"reason"`
	Unsure   bool   `json:"unsure,omitempty"` // whether it is not known that the run needs the build
}

// The answers of Service.Drained.
const (
	DrainedYes     = string(ops.DrainedYes)     // the build can be removed
	DrainedNo      = string(ops.DrainedNo)      // the build takes new work, or open runs need it
	DrainedUnknown = string(ops.DrainedUnknown) // open runs may need the build, or not all of them were read
)

// Ramp distributes the new runs of pinned workflows over builds. See [ops.Client.Ramp].
type Ramp struct {
	// Percent contains the percentage of each build. Those of several builds must sum to 100. With
	// one build, the others share the rest. Without builds, the distribution is removed.
	Percent map[string]int `json:"percent"`
	Reason  string         `json:"reason,omitempty"` // recorded in the journal
}

// Ramped contains the resulting percentages of all builds that have one.
type Ramped struct {
	Percent map[string]int `json:"percent"`
}

// DeployAction is an action to apply to a build.
type DeployAction struct {
	Verb   string `json:"verb"`             // one of [DeployActions]
	To     string `json:"to,omitempty"`     // build that receives the pinned runs; only the verb retire uses it
	Reason string `json:"reason,omitempty"` // recorded in the journal
}

// DeployActed reports that an action was applied to a build.
type DeployActed struct {
	Build string `json:"build"`
	Verb  string `json:"verb"`
	To    string `json:"to,omitempty"`
}

const (
	verbRetire   = "retire"
	verbUnretire = "unretire"
)

// DeployActions returns the verbs of all actions on builds. All of them are idempotent.
func DeployActions() []string { return []string{verbRetire, verbUnretire} }

// Deploys returns the builds of the workers, with the open runs that need them.
func (s *Service) Deploys(ctx context.Context) (Deploys, error) {
	if err := s.all(RoleViewer, "see deployments", ownRuns); err != nil {
		return Deploys{}, err
	}
	found, err := s.ops.Deploys(ctx)
	if err != nil {
		return Deploys{}, err
	}
	all := Deploys{At: found.At.UTC(), Builds: make([]Deploy, len(found.Builds)), Read: found.Read, Partial: found.Inexact}
	for i := range found.Builds {
		all.Builds[i] = s.deployOf(&found.Builds[i])
	}
	return all, nil
}

func (s *Service) deployOf(d *ops.Deploy) Deploy {
	got := Deploy{
		Build: d.Build, Workers: d.Workers, Claims: d.Claims, FirstSeen: utc(d.First), LastSeen: utc(d.Last), Percent: d.Percent,
		Retired: utc(d.Retired), To: d.To, Started: d.Started, Needs: d.Needs, BlockedRuns: d.BlockedRuns,
	}
	if got.Workers == nil {
		got.Workers = []string{}
	}
	for _, r := range d.Blocked {
		if !s.who.Role.Allows(RolePayloads) {
			r.Reason = ends(r.Reason)
		}
		got.Blocked = append(got.Blocked, BlockedRun{Run: string(r.Run), Workflow: r.Workflow, Queue: r.Queue, Reason: r.Reason})
	}
	return got
}

// Drained reports whether the workers of a build can be removed.
func (s *Service) Drained(ctx context.Context, build string) (Drained, error) {
	if err := s.all(RoleViewer, "see deployments", ownRuns); err != nil {
		return Drained{}, err
	}
	d, err := s.ops.Drained(ctx, build)
	if err != nil {
		return Drained{}, err
	}
	got := Drained{
		Build: d.Build, Answer: string(d.Answer), Reason: d.Reason, Workers: d.Workers, Claims: d.Claims, Needs: d.Needs, Unsure: d.Unsure, Read: d.Read,
	}
	for _, r := range d.Runs {
		got.Runs = append(got.Runs, NeedingRun{
			Run: string(r.Run), Workflow: r.Workflow, Queue: r.Queue, Status: string(r.Status), Reason: r.Reason, Unsure: r.Unsure,
		})
	}
	return got, nil
}

// Ramp distributes the new runs of pinned workflows over builds.
func (s *Service) Ramp(ctx context.Context, r Ramp) (Ramped, error) {
	var parts []string
	for _, build := range slices.Sorted(maps.Keys(r.Percent)) {
		parts = append(parts, fmt.Sprintf("%s=%d", build, r.Percent[build]))
	}
	e := s.entry(JournalEntry{Action: "ramp", Detail: strings.Join(parts, " "), Reason: r.Reason})
	return recorded(ctx, s, &e, func(ctx context.Context) (Ramped, error) {
		if err := s.mayChange("ramp", left(&e, r.Reason, false)); err != nil {
			return Ramped{}, err
		}
		percent, err := s.ops.Ramp(ctx, r.Percent)
		return Ramped{Percent: percent}, err
	}, func(Ramped, *JournalEntry) {})
}

// ActOnDeploy takes a build out of use, or into use again.
func (s *Service) ActOnDeploy(ctx context.Context, build string, a DeployAction) (DeployActed, error) {
	e := s.entry(JournalEntry{Action: a.Verb, Target: "deploy:" + build, Detail: a.To, Reason: a.Reason})
	return recorded(ctx, s, &e, func(ctx context.Context) (DeployActed, error) {
		if err := s.mayChange(a.Verb, left(&e, a.Reason, false)); err != nil {
			return DeployActed{}, err
		}
		done := DeployActed{Build: build, Verb: a.Verb, To: a.To}
		switch {
		case a.Verb == verbRetire:
			return done, s.ops.Retire(ctx, build, a.To)
		case a.Verb != verbUnretire:
			return done, checkOneOf("action on builds", a.Verb, DeployActions())
		case a.To != "":
			return done, &InputError{What: "unretire with another build", Fix: "give it with retire only"}
		}
		return done, s.ops.Unretire(ctx, build)
	}, func(DeployActed, *JournalEntry) {})
}

// mayChange returns an error if the principal may not change deployments for this reason.
func (s *Service) mayChange(verb, reason string) error {
	if err := s.all(RoleOperator, verb+" builds", ownRuns); err != nil {
		return err
	}
	return checkReason(verb, reason, false)
}
