package event

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// The prefixes of the IDs of this package. An ID is a prefix, '_' and a ULID of 26 characters. IDs
// with the same prefix sort by creation time, except the IDs that DerivedRunID returns.
const (
	PrefixRun    = "wrun"
	PrefixStep   = "step"
	PrefixHook   = "hook"
	PrefixWait   = "wait"
	PrefixChild  = "chld"
	PrefixSend   = "send"
	PrefixAsk    = "asks"
	PrefixStream = "strm"
	PrefixEvent  = "evnt"
)

const idLength = 4 + 1 + ulid.EncodedSize

// RunID identifies a run: "wrun_" and a ULID. It is a distinct type, so that a workflow ID, which
// is a string chosen by the user, cannot be used as a run ID.
type RunID string

// NewRunID returns a new random ID with the creation time now and the given slot. It panics if now
// is before 1970 or after the year 10889, because a ULID cannot represent such times.
func NewRunID(now time.Time, slot uint16) RunID {
	var u ulid.ULID
	_, _ = rand.Read(u[6:14]) // crypto/rand.Read never fails
	if err := u.SetTime(ulid.Timestamp(now)); err != nil {
		panic(fmt.Sprintf("event: run created at %v: %v", now, err))
	}
	binary.BigEndian.PutUint16(u[14:], slot)
	return RunID(PrefixRun + "_" + u.String())
}

// ParseRunID returns s as a run ID. It returns an error that describes the problem if s does not
// have the form of a run ID.
func ParseRunID(s string) (RunID, error) {
	if _, err := parseRun(s); err != nil {
		return "", fmt.Errorf("parse run id %q: %w", s, err)
	}
	return RunID(s), nil
}

// Slot returns the number by which stores select the partition of the run. The slot is part of the
// ID, so that routing needs no lookup. The slot of an invalid ID is 0.
func (id RunID) Slot() uint16 {
	u, err := parseRun(string(id))
	if err != nil {
		return 0
	}
	return binary.BigEndian.Uint16(u[14:])
}

// Time returns when the ID was made, in milliseconds, by the clock of the client that started the
// run. The ID of a run that another run started has the time of the starting run's ID. Time returns
// the zero time for an invalid ID.
func (id RunID) Time() time.Time {
	u, err := parseRun(string(id))
	if err != nil {
		return time.Time{}
	}
	return ulid.Time(u.Time()).UTC()
}

// SlotOf returns the slot of a workflow ID. All runs with the same workflow ID are in one
// partition.
func SlotOf(workflowID string) uint16 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(workflowID))
	sum := h.Sum32()
	return uint16(sum>>16) ^ uint16(sum)
}

// RandomSlot returns a slot for a run without a workflow ID.
func RandomSlot() uint16 {
	var b [2]byte
	_, _ = rand.Read(b[:])
	return binary.BigEndian.Uint16(b[:])
}

func parseRun(s string) (ulid.ULID, error) {
	var u ulid.ULID
	if !strings.HasPrefix(s, PrefixRun+"_") {
		return u, fmt.Errorf("it does not start with %q", PrefixRun+"_")
	}
	if len(s) != idLength {
		return u, fmt.Errorf("it has %d characters, want %d", len(s), idLength)
	}
	u, err := ulid.ParseStrict(s[len(PrefixRun)+1:])
	if err != nil {
		return u, fmt.Errorf("it does not hold a ULID: %w", err)
	}
	// The parser ignores the case of letters, but IDs are compared as strings.
	if u.String() != s[len(PrefixRun)+1:] {
		return u, fmt.Errorf("it is not in upper case")
	}
	return u, nil
}

// derivedID returns the ID of entity number n of a run. IDs are computed from the log and not
// stored, so that the same log gives the same IDs.
func derivedID(prefix string, run RunID, n uint64, created time.Time) string {
	var u ulid.ULID
	h := fnv.New128a()
	_, _ = h.Write([]byte(prefix))
	_, _ = h.Write([]byte(run))
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	_, _ = h.Write(b[:])
	copy(u[6:], h.Sum(nil))
	ms := max(created.UnixMilli(), 0)
	if err := u.SetTime(min(uint64(ms), ulid.MaxTime())); err != nil {
		panic("event: " + err.Error()) // cannot happen: the time was clamped
	}
	return prefix + "_" + u.String()
}

// CommitID is the random name of a frame. The CommitID of the last frame identifies a position in a
// log. A count cannot identify it, because a count repeats after lost writes.
type CommitID [16]byte

// NewCommitID returns a new random CommitID.
func NewCommitID() CommitID {
	var c CommitID
	_, _ = rand.Read(c[:])
	return c
}

// String returns the CommitID in hexadecimal.
func (c CommitID) String() string { return hex.EncodeToString(c[:]) }

// Token is the random part of a fence. The worker creates one for each claim.
type Token [8]byte

// NewToken returns a new random token.
func NewToken() Token {
	var t Token
	_, _ = rand.Read(t[:])
	return t
}

// String returns the token in hexadecimal.
func (t Token) String() string { return hex.EncodeToString(t[:]) }

// ItemID identifies an inbox item. A sender creates the ID once and uses it for all retries of the
// request, so that the item is delivered once.
type ItemID string

// NewItemID returns a new random item ID.
func NewItemID() ItemID {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return ItemID(hex.EncodeToString(b[:]))
}

// DerivedItemID returns the ID of an item that an operation of a run sends. If a store loses
// writes, the run executes the operation a second time. The second item has the same ID, and the
// receiver recognizes it.
func DerivedItemID(sender RunID, operation string) ItemID {
	sum := sha256.Sum256([]byte(string(sender) + "\x00" + operation))
	return ItemID(hex.EncodeToString(sum[:16]))
}

// DerivedRunID returns the ID of the run that an operation of a run starts. The ID has the given
// slot.
//
// The ID depends only on the arguments, because it is the idempotency key of the creation. If a
// store fails over, it may lose the last writes of the sender but keep the started run, which is in
// another partition. The sender then executes the operation again, requests a run with the same ID,
// and finds the existing run. If the ID contained the current time or random bits, a second run
// would be started. Therefore the ID contains the time of the sender's ID. The creation time of the
// run must be read from the store.
func DerivedRunID(sender RunID, operation string, slot uint16) RunID {
	u, err := parseRun(string(sender))
	if err != nil {
		panic(fmt.Sprintf("event: run started by %q: %v", sender, err))
	}
	sum := sha256.Sum256([]byte(string(sender) + "\x00" + operation))
	copy(u[6:14], sum[:])
	binary.BigEndian.PutUint16(u[14:], slot)
	return RunID(PrefixRun + "_" + u.String())
}

// NextRunID returns the ID of the run that continues the given run. seq and now are the number and
// the time of the event that ends the given run. The result has the same slot, and depends only on
// the arguments.
func NextRunID(run RunID, seq uint64, now time.Time) RunID {
	next, err := parseRun(PrefixRun + "_" + derivedID("next", run, seq, now)[len("next_"):])
	if err != nil {
		panic("event: " + err.Error()) // cannot happen: derivedID returns valid IDs
	}
	binary.BigEndian.PutUint16(next[14:], run.Slot())
	return RunID(PrefixRun + "_" + next.String())
}

// ScheduleRun is the workflow name of runs that implement schedules.
const ScheduleRun = "flowgen.schedule"

// ScheduleRunID returns the workflow ID of a schedule's run.
func ScheduleRunID(schedule string) string { return "schedule:" + schedule }

// TicksRunID returns the workflow ID that the runs of a schedule share if they may not overlap.
func TicksRunID(schedule string) string { return ScheduleRunID(schedule) + "/run" }

// TickRunID returns the ID of the run that a schedule starts for a tick. at is the nominal time of
// the tick.
//
// In contrast to [DerivedRunID], the ID is derived from the schedule and the tick, and not from the
// run that starts it. A schedule is a chain of runs, and each run of the chain must find the
// existing run of a tick. All runs that a schedule starts have the slot of [TicksRunID], whatever
// the overlap policy is, because an update may change the policy.
func TickRunID(schedule, tick string, at time.Time) RunID {
	return runIDOf("schedule\x00"+schedule+"\x00"+tick, at, SlotOf(TicksRunID(schedule)))
}

// AlertRunID returns the ID of the run that delivers the alert of a rule about a failure group in
// the window that begins at the given time. The ID depends only on the arguments, so all workers
// that report the group in this window create the same run. The slots of the IDs differ, so alerts
// are spread over the partitions.
func AlertRunID(rule, group string, window time.Time) RunID {
	of := "alert\x00" + rule + "\x00" + group
	return runIDOf(of, window, SlotOf(of+"\x00"+window.UTC().Format(time.RFC3339)))
}

// runIDOf returns an ID with the given time and slot. The rest of the ID is derived from of.
func runIDOf(of string, at time.Time, slot uint16) RunID {
	var u ulid.ULID
	sum := sha256.Sum256([]byte(of))
	copy(u[6:14], sum[:])
	ms := min(max(at.UnixMilli(), 0), int64(ulid.MaxTime()))
	if err := u.SetTime(uint64(ms)); err != nil {
		panic("event: " + err.Error()) // cannot happen: the time was clamped
	}
	binary.BigEndian.PutUint16(u[14:], slot)
	return RunID(PrefixRun + "_" + u.String())
}
