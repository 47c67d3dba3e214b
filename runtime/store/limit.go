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

// LimitID identifies one part of a limit. A limit with keys has one part for each key; any other
// limit has one part with an empty key.
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

// Use is the amount of a limit that a run needs. The run holds it as permits.
type Use struct {
	LimitID
	Weight int `json:"Weight"` // at least 1
	// Nested reports that an ancestor of the run holds other permits to its end and waits for this
	// run. Runs that wait for the ancestor's permits therefore do not hold back this run; otherwise
	// there would be a deadlock. All uses of a run have the same value.
	Nested bool `json:"Nested,omitempty"`
	// Local marks a limit that each worker enforces for itself: a claim returns the run only if the
	// worker's Room suffices. The store counts the use, but does not bound it, and the use holds
	// back no other run.
	Local bool `json:"Local,omitempty"`
}

// Room is the capacity of a local limit on a worker.
type FreeCapacity struct {
	Limit string
	Free  int // weight that is not in use on this worker
	Most  int // total weight
}

// SkippedRun is a run that a claim has skipped because the worker lacks free capacity for it.
type SkippedRun struct {
	Run   event.RunID
	Route Route
	Never bool // the run's weight exceeds the worker's total capacity
}

// MaxUses is the maximum number of limits that a run may use.
const MaxUses = 16

// MaxWeight is the largest weight of a use, and the largest number of a LimitConfig.
const MaxWeight = math.MaxInt32

// LimitConfig is the configuration of a limit. A zero field imposes no bound.
type LimitConfig struct {
	// AtOnce is the weight that may be held at once.
	AtOnce int `json:"AtOnce"`
	// Rate is the weight that may begin in each Per, spread evenly; in any span of Per at most
	// Rate+Burst-1 begin. Burst is the weight that may begin at once; if 0, it is the weight of 50
	// ms at the rate, at least 1. If Per is 0, it is one second.
	Rate  int           `json:"Rate"`
	Burst int           `json:"Burst"`
	Per   time.Duration `json:"Per"`
	// Refuse makes a start that would have to wait fail with a *StartRefusedError.
	Refuse bool `json:"Refuse"`
	// Waiting is the maximum weight that may wait, without runs that could begin; further starts
	// are refused. 0 means any.
	Waiting int `json:"Waiting"`
	// Paused prevents runs from getting permits. Runs that hold permits finish.
	Paused bool `json:"Paused"`
	// Follows marks a stored configuration of which only the pause was set. See MergeConfigs.
	Follows bool `json:"Follows,omitempty"`
}

// MergeConfigs returns the effective configuration of a part of a limit: own was set for the part,
// whole was set for all parts, and code is declared in the code; each may be nil. The first of them
// that is not nil and has not Follows applies. The part is paused if own or whole is paused. set
// reports whether own or whole exists, and declared whether only code does.
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

// Interval returns the time between two weights at the rate, at least a microsecond; 0 if there is
// no rate.
func (c *LimitConfig) Interval() time.Duration {
	if c.Rate <= 0 {
		return 0
	}
	return max(cmp.Or(c.Per, time.Second)/time.Duration(c.Rate), time.Microsecond)
}

// Bursts returns the weight that may begin at once under the rate.
func (c *LimitConfig) Bursts() int {
	if c.Burst > 0 {
		return c.Burst
	}
	return int(max(50*time.Millisecond/max(c.Interval(), 1), 1))
}

// Due returns the time, in milliseconds since 1970, at which the rate admits a weight after that
// many others; 0 means now. It implements the generic cell rate algorithm: tat, in microseconds, is
// the time of the next weight if all came evenly, and a weight may be early by Bursts()-1
// intervals. So at most Rate+Bursts()-1 begin in any span of Per.
func (c *LimitConfig) Due(tat int64, after int, now time.Time) int64 {
	if c.Rate <= 0 {
		return 0
	}
	// A tat in the past stands for now: later weights count from now.
	at := max(tat, now.UnixMicro()) + int64(after-c.Bursts()+1)*c.Interval().Microseconds()
	if at <= now.UnixMicro() {
		return 0
	}
	return (at + 999) / 1000
}

// SetLimit is a request to configure a limit.
type SetLimit struct {
	// LimitID is the part of a limit that gets a configuration of its own. With an empty key, the
	// configuration applies to all parts that have none of their own.
	LimitID
	Config LimitConfig
	// Default marks the configuration of the code, which applies only if none was set. The later of
	// two defaults replaces the earlier one. A default has an empty key.
	Default bool
	// Reset removes the configuration that was set. Config and Default are ignored.
	Reset bool
	// KeepPause preserves the pause and ignores Config.Paused: a paused limit stays paused when it
	// is reset. PauseOnly sets only the pause, to Config.Paused.
	KeepPause, PauseOnly bool
}

// Given returns the configuration that is set after the request, or nil if there is none. was is
// the configuration that was set before, or nil.
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

// Check returns an *InvalidError if the limit has no valid name, or if a number of its
// configuration is negative or too large.
func (s *SetLimit) Check() error {
	if err := s.LimitID.Check(); err != nil {
		return err
	}
	if s.Default && s.Key != "" {
		return &InvalidError{What: "key of a limit", Value: s.Key, Reason: "is given to a default, which is for all keys"}
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

// Check returns an *InvalidError if the name is empty, or if the name or the key is not valid.
func (id LimitID) Check() error {
	if id.Name == "" {
		return &InvalidError{What: "limit", Reason: "has no name"}
	}
	if err := CheckName("limit", id.Name); err != nil {
		return err
	}
	return CheckName("key of a limit", id.Key)
}

// MergeUses returns the uses sorted by limit. Uses of the same limit are merged into one with the
// largest weight.
func MergeUses(uses []Use) []Use {
	uses = slices.Clone(uses)
	slices.SortFunc(uses, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key), cmp.Compare(b.Weight, a.Weight))
	})
	return slices.CompactFunc(uses, func(a, b Use) bool { return a.LimitID == b.LimitID })
}

// StandingOrder returns the indexes of the uses that are not local, in the order in which a limiter
// queue comes to count at their limits: limits with keys first, then by name and key.
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

// LocalOf returns uses if some of them are local, otherwise nil.
func LocalOf(uses []Use) []Use {
	if slices.ContainsFunc(uses, func(u Use) bool { return u.Local }) {
		return uses
	}
	return nil
}

// CheckUses returns an *InvalidError unless the uses are sorted as by MergeUses, number at most
// MaxUses, and have valid names and weights.
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
			return &InvalidError{What: "limit", Value: u.String(), Reason: "is nested where another limit of the run is not, or not where that is"}
		}
	}
	return nil
}

// Limiter is a store that supports limits, and therefore creates runs with uses. Other stores
// refuse such runs with [ErrNoLimits].
type Limiter interface {
	// SetLimits configures limits in a partition. Runs that the new configuration admits become
	// claimable at once. Runs that hold permits keep them.
	SetLimits(ctx context.Context, partition int, set []SetLimit) error
	// Limits returns up to limit parts of limits, ordered by name and key, beginning after the part
	// after; 0 means 100. It returns the parts that are configured, of which permits are held, or
	// for which runs wait. The store knows nothing of a limit that is absent from the result.
	Limits(ctx context.Context, partition int, after LimitID, limit int) ([]LimitState, error)
}

// LimitState is the state of a part of a limit.
type LimitState struct {
	LimitID
	Config  LimitConfig
	Set     bool // the configuration was set at run time, for the part or for the whole limit
	Default bool // the configuration is that of the code
	Held    int  // weights
	Waits   int  // weight of the runs that wait
	// Away is the part of Waits whose runs wait for another limit first. They take nothing here
	// before that limit has free capacity for them.
	Away int
	// Next is the time at which the rate admits a weight; zero if it admits one now or there is no
	// rate.
	Next time.Time
}

// TurnReader is a store with limits that reports the state of single parts of limits. It serves
// people who look up what a run waits for.
type TurnReader interface {
	// Turns returns the state of parts of limits of a partition, in the order of ids. A part that
	// the store does not know bounds nothing. The states need not be of one moment.
	Turns(ctx context.Context, partition int, ids []LimitID) ([]Turn, error)
}

// Turn is the state of a part of a limit, with the run that is next there.
type Turn struct {
	LimitState
	// First is the first of the runs that wait for the part and that no later run overtakes. It is
	// empty if there is none, or if no claim has examined the run yet.
	First event.RunID
}

// WaitsAt returns the index of the use at which a run waits for permits. The run must have been
// waiting since a nonzero time. turns contains the states of the parts of its uses, in the order of
// uses. WaitsAt returns false if the run waits at none of them, for example because it waits for a
// worker.
//
// The run's limiter queue waits at the first paused limit, else at the first limit in the standing
// order that lacks free capacity or where an earlier run is next: the last limit at which the queue
// counts. This is the only place that decides what is shown.
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

// MaxShare is the largest share of a fair key.
const MaxShare = 100

// Pace is the distance between the positions of two successive runs of a fairness key with share 1.
// It is divisible by all shares up to 10; larger shares, up to MaxShare, are approximated within
// one percent.
const Pace = 5040

// PassAfter returns the lowest position of the next run of a fairness key after a run at the given
// position.
func PassAfter(place int64, share int) int64 {
	return place + int64(Pace+share/2)/int64(max(share, 1))
}

// CheckShare returns an *InvalidError if the fairness key is not a valid name, or if the share is
// outside 0 to MaxShare or is given without a key.
func CheckShare(fair string, share int) error {
	switch {
	case share < 0 || share > MaxShare:
		return &InvalidError{What: "share of fair key " + fair, Value: fmt.Sprint(share), Reason: fmt.Sprintf("is not from 1 to %d", MaxShare)}
	case share > 0 && fair == "":
		return &InvalidError{What: "share", Value: fmt.Sprint(share), Reason: "has no fair key"}
	}
	return CheckName("fair key", fair)
}

// Weight returns the share of the run, or 0 if it has no fairness key.
func (c *Create) Weight() int {
	if c.Fair == "" {
		return 0
	}
	return max(c.Share, 1)
}

// FairID identifies the ready runs of a route and a priority that have fairness keys.
type FairID struct {
	Route    Route
	Priority int
}
