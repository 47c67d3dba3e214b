package redisstore

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// header is the part of the state of a run that nearly every operation compares or changes. It is
// the first field of the metadata. Its stored form has 63 bytes, and its numbers are big-endian:
//
//	 1- 8  digest of the workflow ID; zeros if there is none
//	 9     queue state, as a digit
//	10-17  token of the owner; zeros if there is no owner
//	18-25  epoch
//	26-41  commit ID of the last frame
//	42-49  last event
//	50     status, as its position in statuses
//	51     flags, below
//	52-53  recoveries since the last progress, at most 65535
//	54-57  number of frames
//	58-63  bytes of all frames
//
// The first 49 bytes are the guard, which a commit compares. The owner of the run has all values of
// the guard, so it sends the expected bytes, and a script compares a single string. The fence is a
// contiguous part of the guard. The other bytes are state that only the server has. Scripts use the
// functions of lua/part/header.lua for a header; the shortest scripts use byte offsets.
//
// The data of the queue state are in field p of the metadata. They are the position of a ready run,
// the session of an owned run, the due time of a parked run ('0' if it has none), or the time of
// the end. Each change of the queue state overwrites the field, so scripts never need to remove it.
type header struct {
	wid        digest
	queueState store.QueueState
	fence      store.Fence
	last       event.CommitID
	seq        uint64
	status     event.Status
	flags      byte
	recoveries int
	frames     uint64
	bytes      int
}

const (
	headerSize = 63
	guardSize  = 49 // length of the guard: the part that a commit compares
	fenceFrom  = 8  // offset of the fence: queue state, token and epoch
	fenceSize  = 17
)

// Flags of a header. The shortest scripts handle runs without flags.
const (
	hasUnread       = 1 << iota // the inbox is not empty
	isWatched                   // field y contains the time until which the run is watched
	hasRest                     // the end of the run may involve more work: step data, outbox records, CreatedBy, a collection key, followers of streams
	hasRetention                // field j contains the retention
	isClosing                   // the run is closing: senders must repeat their requests later
	hasIncompatible             // field F contains the sessions that could not replay the run
	isExempt                    // the expiry of the owner does not count as a recovery
	isLimited                   // fields U, f and V contain the uses, the fairness key and the permits
)

// digest is a hash of a workflow ID in eight bytes, which is sufficient to detect a commit that
// names a wrong workflow ID. It is zero only if there is no workflow ID.
type digest [8]byte

func digestOf(workflowID string) (d digest) {
	if workflowID != "" {
		h := fnv.New64a()
		_, _ = h.Write([]byte(workflowID)) // never fails
		binary.BigEndian.PutUint64(d[:], h.Sum64()|1)
	}
	return d
}

// packFence encodes a fence as the header of an owned run contains it, including the queue state.
// Scripts compare it with the header.
func packFence(f store.Fence) []byte {
	owned := header{queueState: store.StateOwned, fence: f}
	return owned.appendGuard(make([]byte, 0, guardSize))[fenceFrom : fenceFrom+fenceSize]
}

// packNumber encodes a number in eight bytes, as in a header.
func packNumber(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// pack returns the stored form of the header.
func (h *header) pack() string { return string(h.append(make([]byte, 0, headerSize))) }

func (h *header) append(b []byte) []byte {
	b = h.appendGuard(b)
	b = append(b, statusByte(h.status), h.flags)
	b = binary.BigEndian.AppendUint16(b, uint16(min(h.recoveries, 1<<16-1)))
	b = binary.BigEndian.AppendUint32(b, uint32(h.frames))
	b = binary.BigEndian.AppendUint16(b, uint16(h.bytes>>32))
	return binary.BigEndian.AppendUint32(b, uint32(h.bytes))
}

// appendGuard appends the guard of the header: the part that a commit compares.
func (h *header) appendGuard(b []byte) []byte {
	b = append(append(b, h.wid[:]...), '0'+byte(h.queueState))
	b = binary.BigEndian.AppendUint64(append(b, h.fence.Token[:]...), h.fence.Epoch)
	return binary.BigEndian.AppendUint64(append(b, h.last[:]...), h.seq)
}

// unpackHeader decodes a packed header. It returns the zero value if the header is invalid.
func unpackHeader(packed string) (h header) {
	if len(packed) != headerSize {
		return header{}
	}
	b := []byte(packed)
	copy(h.wid[:], b)
	h.queueState = store.QueueState(b[fenceFrom] - '0')
	copy(h.fence.Token[:], b[9:])
	h.fence.Epoch = binary.BigEndian.Uint64(b[17:])
	copy(h.last[:], b[25:])
	h.seq = binary.BigEndian.Uint64(b[41:])
	h.status, h.flags = statusOf(b[49]), b[50]
	h.recoveries = int(binary.BigEndian.Uint16(b[51:]))
	h.frames = uint64(binary.BigEndian.Uint32(b[53:]))
	h.bytes = int(binary.BigEndian.Uint16(b[57:]))<<32 | int(binary.BigEndian.Uint32(b[59:]))
	return h
}

// number formats n in decimal.
func number(n int64) string { return strconv.FormatInt(n, 10) }

// parseNumber parses the result of number, and also other decimal notations, because the server
// formats scores differently. It returns 0 if s is invalid.
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

// millis returns t in milliseconds since 1970, limited to the range of event.Instant. It rounds up,
// so that nothing becomes due too early. It returns 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return event.Instant(t).UnixMilli()
}

// deadline returns t in milliseconds since 1970, rounded down. It returns 0 for the zero time,
// which means that there is no deadline.
func deadline(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(millis(t.Truncate(time.Millisecond)), 1)
}

// timeOf converts milliseconds since 1970 to a time. It returns the zero time for 0.
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

// statuses defines the stored form of each status: its position in this list, counted from 1. A new
// status must be appended to the list. The stored form 0 means no status.
var statuses = []event.Status{
	event.StatusPending, event.StatusRunning, event.StatusCompleted, event.StatusFailed, event.StatusCanceled,
	event.StatusContinued, event.StatusHeld, event.StatusPaused, event.StatusSleeping, event.StatusWaiting, event.StatusBlocked,
}

func statusByte(s event.Status) byte { return byte(slices.Index(statuses, s) + 1) }

// packStatus encodes a status for a header. The result is empty for an empty status; scripts then
// leave the stored status unchanged.
func packStatus(s event.Status) string {
	if s == "" {
		return ""
	}
	return string([]byte{statusByte(s)})
}

// checkStatus returns an error if s has no stored form.
func checkStatus(run event.RunID, s event.Status) error {
	if s != "" && statusByte(s) == 0 {
		return fmt.Errorf("write run %s: status %q is not known to this release", run, s)
	}
	return nil
}

// statusOf decodes the stored form of a status. For a number that this release does not use, it
// returns the number as text.
func statusOf(n byte) event.Status {
	switch {
	case n == 0:
		return ""
	case int(n) > len(statuses):
		return event.Status(strconv.Itoa(int(n)))
	}
	return statuses[n-1]
}

// packItem encodes an item as its scope, the length of its ID, the ID and the body. Scripts extract
// the ID.
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

// extra contains the values that only few runs have, or that may have any length.
type extra struct {
	workflowID string // empty unless the metadata contains only a hash of it
	tags       map[string]string
}

// pack encodes x as a list of strings, each preceded by its length. The result is empty if no field
// is set.
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

// packText returns s preceded by its length.
func packText(s string) string { return strconv.Itoa(len(s)) + ":" + s }

// describe sets the fields of r for which x contains values.
func (x *extra) describe(r *store.Record) {
	r.Tags = x.tags
	if x.workflowID != "" {
		r.WorkflowID = x.workflowID
	}
}

// unpackTexts decodes a list of strings that are preceded by their lengths.
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
