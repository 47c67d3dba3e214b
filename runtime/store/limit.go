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

// LimitID names one part of a limit: one that goes by keys has a part for each, any other
// has one part, whose key is empty.
type LimitID struct {
	Name string `json:"Name"`
	Key  string `json:"Key"`
}

// String returns name, or name/key.
func (id LimitID) String() string {
	if id.Key == "" {
		return id.Name
	}
	return id.Name + "/" + id.Key
}

// Use is what a run takes from a limit. What a run takes are its permits.
type Use struct {
	LimitID
	Weight int `json:"Weight"` // at least 1
	// Nested says that a run above has other permits to its end, and waits for this one. So
	// this one is not kept back by who waits for what is held there: nobody would ever go.
	// All uses of a run say the same.
	Nested bool `json:"Nested,omitempty"`
	// Local says that the limit is each worker's own: a claim is given the run if there is Room
	// for it. The store counts it, bounds it by nothing, and lets it keep back nobody.
	Local bool `json:"Local,omitempty"`
}

// Room is what a worker has of a local limit.
type Room struct {
	Limit string
	Free  int // weights that are not in use on this worker
	Most  int // weights that it has in all
}

// PassedRun is a run that a claim has passed over, because the worker has no room for it.
type PassedRun struct {
	Run   event.RunID
	Route Route
	Never bool // the worker never has so much
}

// MaxUses is how many limits a run may use.
const MaxUses = 16

// MaxWeight is the largest weight of a use, and the largest number of a LimitConfig.
const MaxWeight = math.MaxInt32

// LimitConfig bounds a limit. Zero bounds nothing.
type LimitConfig struct {
	// AtOnce is how many weights may be held at once.
	AtOnce int `json:"AtOnce"`
	// Rate is how many weights may begin in each Per, evenly; in any span of Per at most
	// Rate+Burst-1 begin. Burst is how many of them may begin at once; 0: what 50 ms of the
	// rate are, at least 1. Per 0: a second.
	Rate  int           `json:"Rate"`
	Burst int           `json:"Burst"`
	Per   time.Duration `json:"Per"`
	// Refuse says that a start is refused that would have to wait, with a
	// *StartRefusedError.
	Refuse bool `json:"Refuse"`
	// Waiting is how many weights may wait, without those that could begin; a start beyond
	// is refused. 0: any number.
	Waiting int `json:"Waiting"`
	// Paused lets nothing begin. Holders finish.
	Paused bool `json:"Paused"`
	// Follows is in configurations that were set: nothing but the pause was. See MergeConfigs.
	Follows bool `json:"Follows,omitempty"`
}

// MergeConfigs returns the configuration of a part of a limit, of which some may be nil: own was set for the part, whole for all parts,
// and code is declared. A part is paused if it was, or the whole. It reports whether one was set, and if not, whether one is declared.
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

// Interval returns the time from one weight to the next, at least a microsecond; 0: there is
// no rate.
func (c *LimitConfig) Interval() time.Duration {
	if c.Rate <= 0 {
		return 0
	}
	return max(cmp.Or(c.Per, time.Second)/time.Duration(c.Rate), time.Microsecond)
}

// Bursts returns how many weights may begin at once by the rate.
func (c *LimitConfig) Bursts() int {
	if c.Burst > 0 {
		return c.Burst
	}
	return int(max(50*time.Millisecond/max(c.Interval(), 1), 1))
}

// Due returns when the rate lets a weight begin after so many others, in milliseconds; 0:
// now. It is the generic cell rate algorithm: tat, in microseconds, is when the next weight
// comes if all came evenly, and one may be earlier by Bursts()-1 intervals. So in any span of
// Per at most Rate+Bursts()-1 begin.
func (c *LimitConfig) Due(tat int64, after int, now time.Time) int64 {
	if c.Rate <= 0 {
		return 0
	}
	// A tat in the past stands for now: what begins next counts from now.
	at := max(tat, now.UnixMicro()) + int64(after-c.Bursts()+1)*c.Interval().Microseconds()
	if at <= now.UnixMicro() {
		return 0
	}
	return (at + 999) / 1000
}

// SetLimit configures a limit.
type SetLimit struct {
	// LimitID names a part of a limit, which then has a configuration of its own, or with
	// an empty key the limit as a whole: all parts that have none.
	LimitID
	Config LimitConfig
	// Default says that the configuration is that of the code: it gives way to one that was
	// set. Of two defaults the later one holds. Its key is empty.
	Default bool
	// Reset removes what was set; Config is ignored, and so is Default.
	Reset bool
	// KeepPause leaves the pause as it is, whatever Config has: a limit that is reset stays paused. PauseOnly changes the pause to
	// Config.Paused, and nothing else.
	KeepPause, PauseOnly bool
}

// Given returns what is set afterwards, nil: nothing; was is what was set before, or nil.
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

// Check returns an *InvalidError if the limit has no name, or one that some store cannot
// keep, or if a number of its configuration is negative or too large.
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

// Check returns an *InvalidError if the name is empty, or if name or key is no name.
func (id LimitID) Check() error {
	if id.Name == "" {
		return &InvalidError{What: "limit", Reason: "has no name"}
	}
	if err := CheckName("limit", id.Name); err != nil {
		return err
	}
	return CheckName("key of a limit", id.Key)
}

// MergeUses sorts uses by their limits. Equal ones become one, with the largest weight.
func MergeUses(uses []Use) []Use {
	uses = slices.Clone(uses)
	slices.SortFunc(uses, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key), cmp.Compare(b.Weight, a.Weight))
	})
	return slices.CompactFunc(uses, func(a, b Use) bool { return a.LimitID == b.LimitID })
}

// StandingOrder returns the uses of a run that are not local, by their indexes, in the order in
// which its line comes to count at them: limits with keys first, then by name and key.
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

// LocalOf returns uses if some of them are local, else nil.
func LocalOf(uses []Use) []Use {
	if slices.ContainsFunc(uses, func(u Use) bool { return u.Local }) {
		return uses
	}
	return nil
}

// CheckUses returns an *InvalidError unless the uses are as MergeUses returns them, at most
// MaxUses, with good names and weights.
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

// Limiter is a store that keeps limits: then it creates runs with uses. A store that is not
// refuses them with [ErrNoLimits].
type Limiter interface {
	// SetLimits configures limits in a partition. What is allowed by it begins at once; what
	// holds permits keeps them.
	SetLimits(ctx context.Context, partition int, set []SetLimit) error
	// Limits returns the parts of limits that are configured, of which permits are held, or
	// for which runs wait, by name and key, after a part: at most limit, 0: 100. Of a limit
	// without a name in the answer nothing is known.
	Limits(ctx context.Context, partition int, after LimitID, limit int) ([]LimitState, error)
}

// LimitState is a part of a limit.
type LimitState struct {
	LimitID
	Config  LimitConfig
	Set     bool // it was set at run time, by itself or as a whole
	Default bool // it is that of the code
	Held    int  // weights
	Waits   int  // weights of the runs that wait
	// Away is how many of the weights in Waits wait for another limit first: they take nothing here
	// before they have room there.
	Away int
	// Next is when the rate lets a weight begin; zero: now, or it has no rate.
	Next time.Time
}
