package alert

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Condition is a reason for an alert.
type Condition string

// The conditions of rules.
const (
	// Failed means that a run has ended as failed. A run that the policy of its workflow reruns has
	// not failed yet. A poisoned run has failed as well.
	Failed Condition = "failed"
	// Poisoned means that a run has failed because too many workers have died while they executed
	// it.
	Poisoned Condition = "poisoned"
	// Blocked means that the code of no worker fits the log of a run.
	Blocked Condition = "blocked"
	// Retrying means that a step has been retried for longer than Rule.After.
	Retrying Condition = "retrying"
	// Unserved means that a run has waited for longer than Rule.After and that no worker serves it.
	Unserved Condition = "unserved"
	// Stuck means that a run has waited for longer than Rule.After for one of the workers that
	// serve it.
	Stuck Condition = "stuck"
	// MissedSchedule means that the tick of a schedule is late by more than Rule.After, that ticks
	// were missed because they were later than the schedule's CatchUp, that no tick can be computed,
	// or that no worker has executed the schedule for Rule.After.
	MissedSchedule Condition = "missed schedule"
	// Doctor means that the doctor of the store has reported a failure or a warning.
	Doctor Condition = "doctor"
)

var conditions = []Condition{Failed, Poisoned, Blocked, Retrying, Unserved, Stuck, MissedSchedule, Doctor}

// Defaults and bounds of rules.
const (
	DefaultWindow = time.Hour
	MinWindow     = time.Minute
	MaxWindow     = 7 * 24 * time.Hour
	DefaultAfter  = 5 * time.Minute
)

// Config contains the alerts of a worker. The zero value has no rules and costs nothing.
type Config struct {
	Rules []Rule
	// Targets are the receivers of alerts, by name. A worker delivers the alerts of its targets,
	// also those that other workers have caused. An alert whose target no worker has waits.
	Targets map[string]Target
	// Console is the base URL of the console, for links in alerts. Empty means that alerts contain
	// no links.
	Console string
}

// Rule determines which runs are reported to a target.
type Rule struct {
	// Name identifies the rule. Two workers with a rule of the same name and window share its
	// alerts, so both report a failure group once.
	Name string
	// Conditions are the conditions, any of which is reported.
	Conditions []Condition
	// Filter selects the runs of the rule. It does not apply to the conditions MissedSchedule and
	// Doctor, which concern no run, and only its workflows and queues apply to Unserved and Stuck.
	Filter Filter
	// Window is the time during which a failure group is reported at most once. Windows begin at
	// multiples of Window since 1970 in UTC. 0 means DefaultWindow.
	Window time.Duration
	// After is how long one of the conditions Retrying, Unserved, Stuck and MissedSchedule must last
	// before it is reported. 0 means DefaultAfter.
	After time.Duration
	// Target is the name of the target. It may be a target of other workers.
	Target string
}

// Filter selects runs that match all its fields. The zero Filter selects all runs except those of
// the runtime.
type Filter struct {
	Workflows []string          // stored name of the workflow; empty selects all
	Queues    []string          // queue of the run; empty selects all
	Tags      map[string]string // the run has all these tags
	Roots     bool              // only runs without a parent
}

// Matches reports whether the filter selects a run.
func (f *Filter) Matches(route store.Route, tags map[string]string, parent event.RunID) bool {
	if !f.Serves(route) || f.Roots && parent != "" && !event.IsStepRun(route.Workflow) {
		return false
	}
	for k, v := range f.Tags {
		if got, ok := tags[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// Serves reports whether the filter selects runs of a workflow and queue. A run that executes a step
// for another run counts as a run of users: while it cannot proceed, its parent waits.
func (f *Filter) Serves(route store.Route) bool {
	queue, _ := event.SplitQueue(route.Queue)
	return (!event.Internal(route.Workflow) || event.IsStepRun(route.Workflow)) &&
		(len(f.Workflows) == 0 || slices.Contains(f.Workflows, route.Workflow)) && (len(f.Queues) == 0 || slices.Contains(f.Queues, queue))
}

// Has reports whether the rule has one of the conditions.
func (r *Rule) Has(some ...Condition) bool {
	return slices.ContainsFunc(some, func(c Condition) bool { return slices.Contains(r.Conditions, c) })
}

// WindowOf returns the beginning of the window that contains t.
func (r *Rule) WindowOf(t time.Time) time.Time {
	w := cmp.Or(r.Window, DefaultWindow).Milliseconds()
	ms := t.UnixMilli()
	return time.UnixMilli(ms - ms%w).UTC()
}

// Patience returns After, or its default.
func (r *Rule) Patience() time.Duration { return cmp.Or(r.After, DefaultAfter) }

// ConfigError reports an invalid configuration of alerts.
type ConfigError struct {
	Field string // the part of the configuration, for example `rule "failures": Window`
	What  string
	Fix   string
}

func (e *ConfigError) Error() string { return fmt.Sprintf("alert: %s %s: %s", e.Field, e.What, e.Fix) }

// Check returns a *ConfigError if the configuration is invalid. Package worker calls it.
func (c *Config) Check() error {
	seen := map[string]bool{}
	for i := range c.Rules {
		r := &c.Rules[i]
		if err := r.check(); err != nil {
			return err
		}
		if seen[r.Name] {
			return &ConfigError{fmt.Sprintf("rule %q", r.Name), "is configured twice", "give each rule a name of its own, because the name identifies its alerts"}
		}
		seen[r.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(c.Targets)) {
		if err := checkTargetName("target", name); err != nil {
			return err
		}
		field := fmt.Sprintf("target %q", name)
		t := c.Targets[name]
		if t == nil {
			return &ConfigError{field, "is nil", "set a *webhook.Webhook, a *webhook.Slack, an *alert.Log or a type of your own"}
		}
		if checked, ok := t.(interface{ Check() error }); ok {
			if err := checked.Check(); err != nil {
				return fmt.Errorf("%s: %w", field, err)
			}
		}
	}
	if c.Console != "" {
		return CheckURL("Console", c.Console)
	}
	return nil
}

func (r *Rule) check() error {
	field := fmt.Sprintf("rule %q", r.Name)
	switch {
	case r.Name == "" || store.CheckName("rule", r.Name) != nil:
		return &ConfigError{field, "has no valid name", fmt.Sprintf("set Name to a text of at most %d bytes", store.MaxName)}
	case len(r.Conditions) == 0:
		return &ConfigError{field, "has no Conditions", "add alert.Failed or another condition"}
	case r.Window != 0 && (r.Window < MinWindow || r.Window > MaxWindow || r.Window%time.Millisecond != 0):
		return &ConfigError{field, fmt.Sprintf("has a Window of %v", r.Window), fmt.Sprintf("set it to between %v and %v", MinWindow, MaxWindow)}
	case r.After < 0:
		return &ConfigError{field, fmt.Sprintf("has an After of %v", r.After), "set it to how long the condition must last"}
	}
	for _, c := range r.Conditions {
		if !slices.Contains(conditions, c) {
			return &ConfigError{field, fmt.Sprintf("has the unknown condition %q", c), fmt.Sprintf("use one of %q", conditions)}
		}
	}
	return checkTargetName(field+": Target", r.Target)
}

func checkTargetName(field, name string) error {
	if name == "" || store.CheckName("target", event.AlertQueue+name) != nil || strings.TrimSpace(name) != name {
		return &ConfigError{fmt.Sprintf("%s %q", field, name), "is not the name of a target", "name the target with a short text, such as \"ops\""}
	}
	return nil
}

// CheckURL returns a *ConfigError for the given field if a text is not the URL of a web server.
func CheckURL(field, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return &ConfigError{field, "is not a valid URL", "set an absolute URL, such as https://example.com/hooks/flowgen, without a user name or password"} // the text may contain a secret
	}
	return nil
}
