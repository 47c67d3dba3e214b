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

// header holds the state of a run that nearly every operation compares or changes. It is the
// first field of the metadata, and one value of 63 bytes, numbers with the highest byte first:
//
//	 1- 8  digest of the workflow id, zeros: it has none
//	 9     queue state, as a digit
//	10-17  token of the owner, zeros: nobody owns it
//	18-25  epoch
//	26-41  cid of the last frame
//	42-49  last event
//	50     status, as its place in statuses
//	51     flags, below
//	52-53  recoveries since the last progress, 65535 at most
//	54-57  number of frames
//	58-63  bytes of all frames
//
// What a commit is guarded by comes first and in one piece, and so does the fence in it:
// the owner of the run knows these bytes, so that a script compares one text. After them
// comes the state that only the server knows. lua/part/header.lua has the functions of
// scripts for a header; the shortest ones count the bytes themselves.
//
// What else belongs to the queue state of a run is field p: where it comes among those that are
// ready, its session, when it is due ('0': never), when it ended.
// It is overwritten with each move, so that nothing has to be removed.
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
	guardSize  = 49 // of what a commit is guarded by
	fenceFrom  = 8  // where the queue state, the token and the epoch begin
	fenceSize  = 17
)

// Flags of a header. Without any, a run needs no more than the shortest scripts do.
const (
	hasUnread       = 1 << iota // there is something in its inbox
	isWatched                   // field y says until when somebody watches
	hasRest                     // there may be more to do at its end: step data, records, the record that created it, the key of which it gathers starts, followers of its streams
	hasRetention                // field j says how long it is kept
	isClosing                   // its senders are told to come later
	hasIncompatible             // field F says who could not replay it
	isExempt                    // while it is owned: the end of its session is not counted
	isLimited                   // fields U, f and V say what limits it uses, its fair key, and what it has of them
)

// digest is a workflow id in eight bytes: enough to notice that a commit names another one
// than that of its run. It is zero only for none.
type digest [8]byte

func digestOf(workflowID string) (d digest) {
	if workflowID != "" {
		h := fnv.New64a()
		_, _ = h.Write([]byte(workflowID)) // never fails
		binary.BigEndian.PutUint64(d[:], h.Sum64()|1)
	}
	return d
}

// packFence returns what a script compares that only the owner may use.
func packFence(f store.Fence) []byte {
	owned := header{queueState: store.StateOwned, fence: f}
	return owned.appendGuard(make([]byte, 0, guardSize))[fenceFrom : fenceFrom+fenceSize]
}

// packNumber returns a number as it is in a header.
func packNumber(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// pack returns the header as it is stored.
func (h *header) pack() string {
	b := h.appendGuard(make([]byte, 0, headerSize))
	b = append(b, statusByte(h.status), h.flags)
	b = binary.BigEndian.AppendUint16(b, uint16(min(h.recoveries, 1<<16-1)))
	b = binary.BigEndian.AppendUint32(b, uint32(h.frames))
	b = binary.BigEndian.AppendUint16(b, uint16(h.bytes>>32))
	return string(binary.BigEndian.AppendUint32(b, uint32(h.bytes)))
}

// appendGuard appends what a commit is guarded by.
func (h *header) appendGuard(b []byte) []byte {
	b = append(append(b, h.wid[:]...), '0'+byte(h.queueState))
	b = binary.BigEndian.AppendUint64(append(b, h.fence.Token[:]...), h.fence.Epoch)
	return binary.BigEndian.AppendUint64(append(b, h.last[:]...), h.seq)
}

// unpackHeader is the opposite of pack; the zero value: there is no header that can be read.
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
