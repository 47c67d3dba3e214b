package store

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/flowgen/flowgen/runtime/event"
)

// InvalidError reports a name or a number that some stores cannot keep. Every store refuses the
// request and writes nothing.
type InvalidError struct {
	What   string // for example "queue" or "value of a tag"
	Value  string // only the beginning if the value is too long
	Reason string
}

// Error returns the refused value and the reason.
func (e *InvalidError) Error() string { return fmt.Sprintf("%s %q %s", e.What, e.Value, e.Reason) }

// Permanent returns true, because a store always refuses the same request.
func (e *InvalidError) Permanent() bool { return true }

// Limits of texts, in bytes. MaxName applies to the queue, the workflow and the workflow ID of a
// run, and to the name and the value of each tag. MaxTags applies to all tags of a run together.
const (
	MaxName = 1 << 10
	MaxTags = 16 << 10

	// MaxReason applies to the reason of a command and to the note of a paused schedule.
	MaxReason = 4 << 10
)

// CheckName returns an *InvalidError if name is longer than MaxName bytes, or if some stores cannot
// keep it: see [CheckText]. All stores refuse the same names, so a program can change its store.
func CheckName(what, name string) error { return CheckText(what, name, MaxName) }

// CheckText returns an *InvalidError if text is longer than limit bytes, is not valid UTF-8, or
// contains a zero byte. JSON and SQL would change text that is not UTF-8, and stores use zero bytes
// to join names.
func CheckText(what, text string, limit int) error {
	switch {
	case len(text) > limit:
		return tooLong(what, text, limit)
	case !utf8.ValidString(text):
		return &InvalidError{What: what, Value: text, Reason: "is not valid UTF-8"}
	case strings.IndexByte(text, 0) >= 0:
		return &InvalidError{What: what, Value: text, Reason: "holds a zero byte"}
	}
	return nil
}

func tooLong(what, text string, limit int) error {
	return &InvalidError{What: what, Value: strings.ToValidUTF8(text[:min(limit, 100)], ""), Reason: fmt.Sprintf("… has %d bytes, the limit is %d", len(text), limit)}
}

// Check returns an *InvalidError if the queue or the workflow is not a valid name.
func (c Route) Check() error {
	if err := CheckName("queue", c.Queue); err != nil {
		return err
	}
	return CheckName("workflow", c.Workflow)
}

// Check returns an *InvalidError if some stores cannot keep the run. The route and each tag must be
// valid names. The priority must fit into 32 bits, because a store may keep priorities as
// floating-point numbers. Items must have different IDs, because an item is accepted only once.
// Items must not be combined with an Owner, because the owner would begin the run before it has
// read them. A workflow ID may contain any bytes, up to MaxName, because tokens of hooks are chosen
// by other systems.
//
// A store returns this error in Created.Err before it checks anything else.
func (c *Create) Check() error {
	if err := c.Route.Check(); err != nil {
		return err
	}
	if len(c.WorkflowID) > MaxName {
		return tooLong("workflow id", c.WorkflowID, MaxName)
	}
	all := 0
	for name, value := range c.Tags {
		all += len(name) + len(value)
		if err := CheckName("tag", name); err != nil {
			return err
		}
		if err := CheckName("value of a tag", value); err != nil {
			return err
		}
	}
	if all > MaxTags {
		return &InvalidError{What: "tags", Value: fmt.Sprint(len(c.Tags)), Reason: fmt.Sprintf("have %d bytes together, the limit is %d", all, MaxTags)}
	}
	if err := c.checkItems(); err != nil {
		return err
	}
	if c.Active > ActiveLatest || c.Finished > FinishedReject {
		return &InvalidError{What: "policy of a workflow id", Value: fmt.Sprint(c.Active, c.Finished), Reason: "is not known to this version"}
	}
	if err := CheckUses(c.Uses); err != nil {
		return err
	}
	if err := c.checkCollect(); err != nil {
		return err
	}
	if err := CheckShare(c.Fair, c.Share); err != nil {
		return err
	}
	if p := int64(c.Priority); p < math.MinInt32 || p > math.MaxInt32 {
		return &InvalidError{What: "priority", Value: fmt.Sprint(c.Priority), Reason: "does not fit into 32 bits"}
	}
	return nil
}

// CheckShare returns an *InvalidError if the fairness key is an invalid name, if the share is
// outside the range from 0 to MaxShare, or if there is a share without a key.
func CheckShare(fair string, share int) error {
	switch {
	case share < 0 || share > MaxShare:
		return &InvalidError{What: "share of fair key " + fair, Value: fmt.Sprint(share), Reason: fmt.Sprintf("is not from 1 to %d", MaxShare)}
	case share > 0 && fair == "":
		return &InvalidError{What: "share", Value: fmt.Sprint(share), Reason: "has no fair key"}
	}
	return CheckName("fair key", fair)
}

func (c *Create) checkCollect() error {
	g := c.Collect
	if g == nil {
		return nil
	}
	wrong := func(reason string) error {
		return &InvalidError{What: "key of starts that share a run", Value: g.Key, Reason: reason}
	}
	switch {
	case len(g.Key) > MaxName:
		return tooLong("key of starts that share a run", g.Key, MaxName)
	case g.Key == "":
		return wrong("is empty")
	case c.WorkflowID != "":
		return wrong("is given beside a workflow id")
	case c.Owner != nil || c.Delay > 0 || !c.At.IsZero():
		return wrong("is given to a run that has an owner, or a start time")
	case c.CreatedBy != "" || !c.Deadline.IsZero():
		return wrong("is given to a run that another run starts")
	case len(c.Items) != 1:
		return wrong(fmt.Sprintf("comes with %d items, want the one of this start", len(c.Items)))
	case g.Quiet < 0 || g.Most < 0 || g.Quiet == 0 && g.Most == 0 || g.Full < 0 || g.Full > 0 && !g.Keep:
		return wrong("has no time at which the run may begin")
	}
	return nil
}

func (c *Create) checkItems() error {
	if len(c.Items) > 0 && c.Owner != nil {
		return &InvalidError{What: "items", Value: fmt.Sprint(len(c.Items)), Reason: "are given to a run that is created as owned"}
	}
	if len(c.Items) < 2 {
		return nil
	}
	ids := make(map[event.ItemID]bool, len(c.Items))
	for i := range c.Items {
		if id := c.Items[i].ID; ids[id] {
			return &InvalidError{What: "id of an item", Value: string(id), Reason: "is given twice"}
		}
		ids[c.Items[i].ID] = true
	}
	return nil
}

// Check returns an *InvalidError if a route of the session is invalid.
func (s *Session) Check() error {
	for _, c := range s.Routes {
		if err := c.Check(); err != nil {
			return err
		}
	}
	return nil
}
