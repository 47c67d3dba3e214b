package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// LimitID identifies one part of a limit. A limit with keys has one part for each key. A limit
// without keys has one part, whose key is empty.
type LimitID struct {
	Name string `json:"Name"`
	Key  string `json:"Key"`
}

// String returns the name, or name/key if the key is not empty.
func (id LimitID) String() string {
	if id.Key == "" {
		return id.Name
	}
	return id.Name + "/" + id.Key
}

// Use is the weight of a limit that a run needs. While the run holds this weight, it has permits of
// the limit.
type Use struct {
	LimitID
	Weight int `json:"Weight"` // at least 1
	// Nested reports that an ancestor of the run holds other permits until its end and waits for
	// this run. Runs that wait for the permits of the ancestor do not hold back this run, because
	// that would be a deadlock. All uses of a run have the same value.
	Nested bool `json:"Nested,omitempty"`
	// Local marks a limit that each worker enforces for itself. A claim returns the run only if the
	// FreeCapacity of the worker is sufficient. The store counts the use without bounding it, and
	// the use holds back no other run.
	Local bool `json:"Local,omitempty"`
}

// FreeCapacity is the capacity of a local limit on a worker.
type FreeCapacity struct {
	Limit string
	Free  int // weight that is not in use on the worker
	Most  int // total weight
}

// SkippedRun is a run that a claim has skipped because the worker lacks free capacity for it.
type SkippedRun struct {
	Run   event.RunID
	Route Route
	Never bool // the weight of the run exceeds the total capacity of the worker
}

// MaxUses is the maximum number of limits that a run may use.
const MaxUses = 16

// MaxWeight is the maximum weight of a use and the maximum number in a LimitConfig.
const MaxWeight = math.MaxInt32

// LimitConfig is the configuration of a limit. A zero field imposes no bound.
type LimitConfig struct {
	// AtOnce is the maximum weight that may be held at the same time.
	AtOnce int `json:"AtOnce"`
	// Rate is the weight that may begin in each Per, evenly distributed. In any period of length
	// Per, at most Rate+Burst-1 begin. Burst is the weight that may begin at the same moment. If
	// Burst is 0, it is the weight of 50 ms at the rate, but at least 1. If Per is 0, it is one
	// second.
	Rate  int           `json:"Rate"`
	Burst int           `json:"Burst"`
	Per   time.Duration `json:"Per"`
	// Refuse makes a start fail with a *StartRefusedError if it would have to wait.
	Refuse bool `json:"Refuse"`
	// Waiting is the maximum weight that may wait. Runs that could begin do not count. Further
	// starts are refused. 0 means no maximum.
	Waiting int `json:"Waiting"`
	// Paused prevents runs from getting permits. Runs that hold permits finish.
	Paused bool `json:"Paused"`
	// Follows marks a stored configuration for which only the pause was set. See MergeConfigs.
	Follows bool `json:"Follows,omitempty"`
}

// MergeConfigs returns the effective configuration of a part of a limit. own was set for the part,
// whole was set for all parts, and code is declared in the code. Each of them may be nil. The first
// one that is not nil and has Follows unset applies. The part is paused if own or whole is paused.
// set reports whether own or whole exists, and declared whether only code exists.
func MergeConfigs(own, whole, code *LimitConfig) (config LimitConfig, set, declared bool) {
	for _, c := range []*LimitConfig{own, whole, code} {
		if c != nil && !c.Follows {
			config = *c
			break
		}
	}
	set = own != nil || whole != nil
	config.Paused = own != nil && own.Paused || whole != nil && whole.Paused
	return config, set, !set && code != nil
}

// Interval returns the time between two units of weight at the rate, at least a microsecond. It
// returns 0 if there is no rate.
func (c *LimitConfig) Interval() time.Duration {
	if c.Rate <= 0 {
		return 0
	}
	return max(cmp.Or(c.Per, time.Second)/time.Duration(c.Rate), time.Microsecond)
}

// Bursts returns the weight that may begin at the same moment under the rate.
func (c *LimitConfig) Bursts() int {
	if c.Burst > 0 {
		return c.Burst
	}
	return int(max(50*time.Millisecond/max(c.Interval(), 1), 1))
}

// Due returns the time, in milliseconds since 1970, at which the rate permits a weight that comes
// after the given number of other weights. 0 means now. It implements the generic cell rate
// algorithm. tat, in microseconds, is the theoretical arrival time: the time of the next weight if
// all weights were evenly distributed. A weight may be early by Bursts()-1 intervals, so at most
// Rate+Bursts()-1 begin in any period of length Per.
func (c *LimitConfig) Due(tat int64, after int, now time.Time) int64 {
	if c.Rate <= 0 {
		return 0
	}
	// A tat in the past is replaced by now, so unused weight of the past is not added.
	at := max(tat, now.UnixMicro()) + int64(after-c.Bursts()+1)*c.Interval().Microseconds()
	if at <= now.UnixMicro() {
		return 0
	}
	return (at + 999) / 1000
}

// SetLimit is a request to change the configuration of a limit.
type SetLimit struct {
	// LimitID is the part of a limit that gets its own configuration. If the key is empty, the
	// configuration applies to all parts without their own configuration.
	LimitID
	Config LimitConfig
	// Default marks the configuration in the code, which applies only if no other configuration was
	// set. A later default replaces an earlier one. The key of a default is empty.
	Default bool
	// Reset removes the configuration that was set before. Config and Default are ignored.
	Reset bool
	// KeepPause keeps the current pause and ignores Config.Paused, so a paused limit stays paused
	// when it is reset. PauseOnly changes only the pause, to Config.Paused.
	KeepPause, PauseOnly bool
}

// Given returns the configuration after the request, or nil if none is set. was is the
// configuration before the request, or nil.
func (s *SetLimit) Given(was *LimitConfig) *LimitConfig {
	c := s.Config
	switch {
	case s.PauseOnly:
		c = LimitConfig{Follows: true}
		if was != nil {
			c = *was
		}
		if c.Paused = s.Config.Paused; c.Follows && !c.Paused {
			return nil
		}
	case s.Reset:
		if !s.KeepPause || was == nil || !was.Paused {
			return nil
		}
		c = LimitConfig{Paused: true, Follows: true}
	case s.KeepPause:
		c.Paused = was != nil && was.Paused
	}
	return &c
}

// Check returns an *InvalidError if the name of the limit is invalid, or if a number of the
// configuration is negative or too large.
func (s *SetLimit) Check() error {
	if err := s.LimitID.Check(); err != nil {
		return err
	}
	if s.Default && s.Key != "" {
		return &InvalidError{What: "key of a limit", Value: s.Key, Reason: "is given to a default, which applies to all keys"}
	}
	for what, n := range map[string]int{"limit at once": s.Config.AtOnce, "rate": s.Config.Rate, "burst": s.Config.Burst, "waiting weights": s.Config.Waiting} {
		if n < 0 || n > MaxWeight {
			return &InvalidError{What: what, Value: fmt.Sprint(n), Reason: "is negative, or does not fit into 31 bits"}
		}
	}
	if s.Config.Per < 0 {
		return &InvalidError{What: "time of a rate", Value: s.Config.Per.String(), Reason: "is negative"}
	}
	return nil
}

// Check returns an *InvalidError if the name is empty or invalid, or if the key is invalid.
func (id LimitID) Check() error {
	if id.Name == "" {
		return &InvalidError{What: "limit", Reason: "has no name"}
	}
	if err := CheckName("limit", id.Name); err != nil {
		return err
	}
	return CheckName("key of a limit", id.Key)
}

// MergeUses returns the uses sorted by limit. It merges the uses of the same limit into one use
// with the largest of their weights.
func MergeUses(uses []Use) []Use {
	uses = slices.Clone(uses)
	slices.SortFunc(uses, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key), cmp.Compare(b.Weight, a.Weight))
	})
	return slices.CompactFunc(uses, func(a, b Use) bool { return a.LimitID == b.LimitID })
}

// StandingOrder returns the indexes of the uses that are not local, in the order in which a limiter
// queue begins to count at their limits. Limits with keys come first; within both groups the order
// is by name and key.
func StandingOrder(uses []Use) []int {
	order := make([]int, 0, len(uses))
	for _, keyed := range []bool{true, false} {
		for i, u := range uses {
			if !u.Local && (u.Key != "") == keyed {
				order = append(order, i)
			}
		}
	}
	return order
}

// LocalOf returns uses if any of them is local, and nil otherwise.
func LocalOf(uses []Use) []Use {
	if slices.ContainsFunc(uses, func(u Use) bool { return u.Local }) {
		return uses
	}
	return nil
}

// CheckUses returns an *InvalidError if the uses are not sorted as by MergeUses, if there are more
// than MaxUses, or if a name or a weight is invalid.
func CheckUses(uses []Use) error {
	if len(uses) > MaxUses {
		return &InvalidError{What: "limits of a run", Value: fmt.Sprint(len(uses)), Reason: fmt.Sprintf("are more than %d", MaxUses)}
	}
	for i, u := range uses {
		if err := u.LimitID.Check(); err != nil {
			return err
		}
		if u.Weight < 1 || u.Weight > MaxWeight {
			return &InvalidError{What: "weight of limit " + u.String(), Value: fmt.Sprint(u.Weight), Reason: "is not above zero, or does not fit into 31 bits"}
		}
		if i > 0 && cmp.Or(cmp.Compare(uses[i-1].Name, u.Name), cmp.Compare(uses[i-1].Key, u.Key)) >= 0 {
			return &InvalidError{What: "limit", Value: u.String(), Reason: "is used twice, or not in order: see MergeUses"}
		}
		if u.Nested != uses[0].Nested {
			return &InvalidError{What: "limit", Value: u.String(), Reason: "is nested, but another limit of the run is not, or the reverse"}
		}
	}
	return nil
}

// Limiter is a store that supports limits, so it accepts runs with uses. Other stores refuse such
// runs with [ErrNoLimits].
type Limiter interface {
	// SetLimits changes the configurations of limits in a partition. If the new configuration
	// permits waiting runs to begin, they can be claimed at once. Runs that hold permits keep them.
	SetLimits(ctx context.Context, partition int, set []SetLimit) error
	// Limits returns the states of the parts of limits that follow the given part, ordered by name
	// and key. It returns at most limit states, or 100 if limit is 0. The result contains the parts
	// that are configured, that have permits in use, or that have waiting runs. A store keeps no
	// data about other parts.
	Limits(ctx context.Context, partition int, after LimitID, limit int) ([]LimitState, error)
}

// LimitState is the state of a part of a limit.
type LimitState struct {
	LimitID
	Config  LimitConfig
	Set     bool // the configuration was set at run time, for this part or for all parts
	Default bool // the configuration is declared in the code
	Held    int  // weight that runs hold
	Waits   int  // weight of the waiting runs
	// Away is the part of Waits that belongs to runs which wait for another limit first. Such a run
	// takes nothing of this limit until the other limit has free capacity.
	Away int
	// Next is the time at which the rate permits a weight. It is zero if the rate permits a weight
	// now or if there is no rate.
	Next time.Time
}

// TurnReader is a store with limits that can report the state of single parts of limits. It is used
// to show what a run waits for.
type TurnReader interface {
	// Turns returns the states of the given parts of limits in a partition, in the order of ids. A
	// part without stored data is not limited. The states may be read at different moments.
	Turns(ctx context.Context, partition int, ids []LimitID) ([]Turn, error)
}

// Turn is the state of a part of a limit and the next run of the part.
type Turn struct {
	LimitState
	// First is the run that gets permits of the part next, before all later runs. It is empty if no
	// run waits, or if no claim has examined the first waiting run.
	First event.RunID
}

// WaitsAt returns the index of the use for whose limit a run waits. WaitsSince of the run must not
// be zero. turns contains the states of the parts of the uses, in the order of uses. ok is false if
// the run waits for none of them, for example because it waits for a worker.
//
// The limiter queue of the run waits for the first limit that is paused. If no limit is paused, it
// waits for the first limit in the standing order that lacks free capacity or has another run as
// its next run. Everything that is shown about waiting runs is decided here.
func WaitsAt(run event.RunID, uses []Use, turns []Turn) (at int, ok bool) {
	order := StandingOrder(uses[:min(len(uses), len(turns))])
	for _, i := range order {
		if turns[i].Config.Paused {
			return i, true
		}
	}
	for _, i := range order {
		t := &turns[i]
		full := t.Config.AtOnce > 0 && t.Held+uses[i].Weight > t.Config.AtOnce
		if full || !t.Next.IsZero() || t.First != "" && t.First != run {
			return i, true
		}
	}
	return 0, false
}

// MaxShare is the maximum share of a fairness key.
const MaxShare = 100

// Pace is the distance between the positions of two successive runs of a fairness key with share 1.
// It is divisible by each share up to 10. For larger shares, up to MaxShare, the distance is exact
// to one percent.
const Pace = 5040

// PassAfter returns the lowest position of the next run of a fairness key. place is the position of
// the previous run of the key.
func PassAfter(place int64, share int) int64 {
	return place + int64(Pace+share/2)/int64(max(share, 1))
}

// Weight returns the effective share of the run: at least 1, or 0 if the run has no fairness key.
func (c *Create) Weight() int {
	if c.Fair == "" {
		return 0
	}
	return max(c.Share, 1)
}

// FairID identifies a flow: the ready runs of a route and a priority that have fairness keys.
type FairID struct {
	Route    Route
	Priority int
}
