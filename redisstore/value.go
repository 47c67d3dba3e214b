package redisstore

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// number returns n as text.
func number(n int64) string { return strconv.FormatInt(n, 10) }

// parseNumber is the opposite of number; 0 for what is no number. The server
// writes scores as decimals.
func parseNumber(s string) int64 {
	if s == "" {
		return 0
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	f, _ := strconv.ParseFloat(s, 64)
	return int64(f)
}

// millis returns t in milliseconds, rounded up so that nothing is due too early, and
// within the times of event.Instant; 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return event.Instant(t).UnixMilli()
}

// deadline returns a deadline in milliseconds, rounded down; 0: there is none.
func deadline(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(millis(t.Truncate(time.Millisecond)), 1)
}

// timeOf is the opposite of millis.
func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// durationMillis returns d in milliseconds, rounded up.
func durationMillis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// statuses are kept as their place in this list, which only ever grows at its end,
// counted from 1. Zero: there is none.
var statuses = []event.Status{
	event.StatusPending, event.StatusRunning, event.StatusCompleted, event.StatusFailed, event.StatusCanceled,
	event.StatusContinued, event.StatusHeld, event.StatusPaused, event.StatusSleeping, event.StatusWaiting, event.StatusBlocked,
}

func statusByte(s event.Status) byte { return byte(slices.Index(statuses, s) + 1) }

// packStatus returns a status as scripts write it into a header; empty: it stays.
func packStatus(s event.Status) string {
	if s == "" {
		return ""
	}
	return string([]byte{statusByte(s)})
}

// checkStatus refuses a status of a run that cannot be kept.
func checkStatus(run event.RunID, s event.Status) error {
	if s != "" && statusByte(s) == 0 {
		return fmt.Errorf("write run %s: status %q is none that this release knows", run, s)
	}
	return nil
}

// statusOf is the opposite of statusByte. One that a newer release has written is shown
// as its number.
func statusOf(n byte) event.Status {
	switch {
	case n == 0:
		return ""
	case int(n) > len(statuses):
		return event.Status(strconv.Itoa(int(n)))
	}
	return statuses[n-1]
}

// packItem puts an item into one value: its scope, the length of its id, the id
// and the body. Scripts read the id out of it.
func packItem(i store.Item) string {
	return strconv.Itoa(int(i.Scope)) + strconv.Itoa(len(i.ID)) + ":" + string(i.ID) + string(i.Body)
}

func unpackItem(packed string) (store.Item, error) {
	length, rest, ok := strings.Cut(packed, ":")
	if !ok || len(length) < 2 {
		return store.Item{}, fmt.Errorf("%w: an item of an inbox has no id", errDamaged)
	}
	n, err := strconv.Atoi(length[1:])
	if err != nil || n > len(rest) {
		return store.Item{}, fmt.Errorf("%w: an item of an inbox has an id of %s bytes", errDamaged, length[1:])
	}
	return store.Item{ID: event.ItemID(rest[:n]), Scope: store.Scope(length[0] - '0'), Body: []byte(rest[n:])}, nil
}

// extra holds the fields that few runs have, and those of any length.
type extra struct {
	workflowID string // only if it is kept as a hash
	tags       map[string]string
}

// pack returns x as one value: each text with its length before it. It is empty
// if there is nothing to keep.
func (x *extra) pack() string {
	if x.workflowID == "" && len(x.tags) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(packText(x.workflowID))
	for _, key := range slices.Sorted(maps.Keys(x.tags)) {
		b.WriteString(packText(key))
		b.WriteString(packText(x.tags[key]))
	}
	return b.String()
}

// packText returns a text with its length before it.
func packText(s string) string { return strconv.Itoa(len(s)) + ":" + s }

// describe adds x to a record.
func (x *extra) describe(r *store.Record) {
	r.Tags = x.tags
	if x.workflowID != "" {
		r.WorkflowID = x.workflowID
	}
}

// unpackTexts returns texts that have their lengths before them.
func unpackTexts(packed string) (all []string, err error) {
	for packed != "" {
		length, rest, ok := strings.Cut(packed, ":")
		n, err := strconv.Atoi(length)
		if !ok || err != nil || n < 0 || n > len(rest) {
			return nil, fmt.Errorf("%w: a text is cut short", errDamaged)
		}
		all, packed = append(all, rest[:n]), rest[n:]
	}
	return all, nil
}

func unpackExtra(packed string) (*extra, error) {
	all, err := unpackTexts(packed)
	if err != nil {
		return nil, fmt.Errorf("the tags of a run: %w", err)
	}
	if len(all)%2 != 1 {
		return nil, fmt.Errorf("%w: a tag of a run has no value", errDamaged)
	}
	x := &extra{workflowID: all[0]}
	for i := 1; i < len(all); i += 2 {
		if x.tags == nil {
			x.tags = map[string]string{}
		}
		x.tags[all[i]] = all[i+1]
	}
	return x, nil
}
