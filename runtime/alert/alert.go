package alert

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Alert is what a target receives.
type Alert struct {
	// ID identifies the alert. A rule has one ID per failure group and window. A receiver that gets
	// an ID again has received the alert before.
	ID        event.RunID `json:"id"`
	Rule      string      `json:"rule"`
	Condition Condition   `json:"condition"`
	Target    string      `json:"target"`
	Time      time.Time   `json:"time"`
	Window    time.Time   `json:"window,omitzero"` // beginning of the window
	// Workflow, Queue and Run describe the first run that was reported in the window. They are empty
	// if the alert concerns no run.
	Workflow string      `json:"workflow,omitempty"`
	Queue    string      `json:"queue,omitempty"`
	Run      event.RunID `json:"run,omitempty"`
	Group    string      `json:"group,omitempty"` // failure group, or the name of what is reported
	Step     string      `json:"step,omitempty"`  // step that has failed
	Code     string      `json:"code,omitempty"`  // code of the failure
	Message  string      `json:"message"`
	// Count is how often a run has entered the failure group until the alert was delivered. It is 0
	// if it is unknown.
	Count int    `json:"count,omitempty"`
	Link  string `json:"link,omitempty"` // page of the console
}

// Delivery is the outcome of a delivered alert.
type Delivery struct {
	At       time.Time `json:"at"`
	Attempts int       `json:"attempts"`
}

// Target is a receiver of alerts. Deliver returns an error if the receiver has not accepted the
// alert. It is then called again, at growing intervals for a day, by any worker that has the target.
// It may be called again after it has returned nil, because the worker may die before it has
// recorded the delivery. Deliver must return when ctx ends.
type Target interface {
	Deliver(ctx context.Context, a *Alert) error
}

// MaxMessage is the maximum length of the message of an alert, in bytes. Longer messages are cut.
const MaxMessage = 1000

// Cut returns a text that is at most MaxMessage bytes long.
func Cut(text string) string {
	if len(text) <= MaxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:MaxMessage], "") + " …"
}

// Title returns the alert in one line.
func (a *Alert) Title() string {
	of := a.Workflow
	if of == "" {
		of = a.Group
	}
	if of == "" {
		return string(a.Condition)
	}
	return of + ": " + string(a.Condition)
}

// link returns the URL of a page of the console, or "" without a console.
func (c *Config) link(elements ...string) string {
	if c.Console == "" {
		return ""
	}
	u, err := url.JoinPath(c.Console, elements...)
	if err != nil {
		return ""
	}
	return u
}

// RunLink returns the URL of the page of a run, or "" without a console.
func (c *Config) RunLink(run event.RunID) string { return c.link("runs", url.PathEscape(string(run))) }

// PageLink returns the URL of a page of the console, or "" without a console.
func (c *Config) PageLink(page string) string { return c.link(page) }
