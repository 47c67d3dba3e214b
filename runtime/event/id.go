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

// The prefixes of the IDs of this package. An ID is a prefix, '_' and a ULID of 26 characters, so
// that IDs of one kind sort by the time of their creation, except those of DerivedRunID.
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
// is a plain string of the user, cannot be used as a run ID.
type RunID string

// NewRunID returns a new ID with the creation time now, which is routed by slot. It panics if now
// is before 1970 or after the year 10889, which a ULID cannot represent.
func NewRunID(now time.Time, slot uint16) RunID {
	var u ulid.ULID
	_, _ = rand.Read(u[6:14]) // crypto/rand.Read never fails
	if err := u.SetTime(ulid.Timestamp(now)); err != nil {
		panic(fmt.Sprintf("event: run created at %v: %v", now, err))
	}
	binary.BigEndian.PutUint16(u[14:], slot)
	return RunID(PrefixRun + "_" + u.String())
}

// ParseRunID checks that s has the form of a run ID. The error describes what is wrong with it.
func ParseRunID(s string) (RunID, error) {
	if _, err := parseRun(s); err != nil {
		return "", fmt.Errorf("parse run id %q: %w", s, err)
	}
	return RunID(s), nil
}

// Slot returns the number by which stores choose the partition of the run. It is part of the ID, so
// that routing needs no lookup. An invalid ID has slot 0.
func (id RunID) Slot() uint16 {
	u, err := parseRun(string(id))
	if err != nil {
		return 0
	}
	return binary.BigEndian.Uint16(u[14:])
}

// Time returns when the ID was made, in milliseconds, by the clock of the client that started the
// run. For a run started by another run, it is the Time of that run's ID. It is zero if the ID is
// not valid.
func (id RunID) Time() time.Time {
	u, err := parseRun(string(id))
	if err != nil {
		return time.Time{}
	}
	return ulid.Time(u.Time()).UTC()
}

// SlotOf returns the slot of a workflow ID. Runs that share a workflow ID are in the same
// partition.
func SlotOf(workflowID string) uint16 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(workflowID))
	sum := h.Sum32()
	return uint16(sum>>16) ^ uint16(sum)
}

// RandomSlot returns a slot for a run without a workflow id.
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
	// ULIDs are case-insensitive, but IDs are compared as strings.
	if u.String() != s[len(PrefixRun)+1:] {
		return u, fmt.Errorf("it is not in upper case")
	}
	return u, nil
}

// derivedID returns the ID of entity number n of a run. It is computed rather than stored: the same
// log gives the same IDs.
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

// CommitID is the random name of a frame. A position in a log is identified by the CommitID of its
// last frame, never by a count: counts repeat after lost writes, CommitIDs do not.
type CommitID [16]byte

// NewCommitID returns a new random CommitID.
func NewCommitID() CommitID {
	var c CommitID
	_, _ = rand.Read(c[:])
	return c
}

// String returns the CommitID in hexadecimal.
func (c CommitID) String() string { return hex.EncodeToString(c[:]) }

// Token is the random part of a fence, created by the worker for each claim call.
type Token [8]byte

// NewToken returns a new random token.
func NewToken() Token {
	var t Token
	_, _ = rand.Read(t[:])
	return t
}

// String returns the token in hexadecimal.
func (t Token) String() string { return hex.EncodeToString(t[:]) }

// ItemID identifies an inbox item. A sender chooses it once and reuses it when it retries the
// request, so that the item is delivered once.
type ItemID string

// NewItemID returns a new random item id.
func NewItemID() ItemID {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return ItemID(hex.EncodeToString(b[:]))
}

// DerivedItemID returns the ID of an item that a run sends by one of its operations. If the
// operation is executed again after a store has lost writes, the item has the same ID and is
// recognized.
func DerivedItemID(sender RunID, operation string) ItemID {
	sum := sha256.Sum256([]byte(string(sender) + "\x00" + operation))
	return ItemID(hex.EncodeToString(sum[:16]))
}

// DerivedRunID returns the ID of the run that a run starts by one of its operations. It is routed
// by slot.
//
// It must be derived from nothing else, because it is the idempotency key of the creation. A store
// that has failed over may have lost the last writes of the sender, but not the run that they
// started in another partition. The sender then executes the operation again, requests a run with
// the same ID, and finds the existing one. With its own time or random part the ID would differ,
// and the run would be started twice. Therefore the ID contains the time of the sender's ID; the
// creation time must be read from the store.
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

// NextRunID returns the ID of the continuation of a run that continues as new by event seq at now.
// It has the slot of the run, and is always the same for the same arguments.
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

// TicksRunID returns the workflow ID shared by the runs of a schedule that may not overlap.
func TicksRunID(schedule string) string { return ScheduleRunID(schedule) + "/run" }

// TickRunID returns the ID of the run that a schedule starts for one of its ticks, with the nominal
// time at.
//
// Unlike [DerivedRunID], it is derived from the name of the schedule and the tick, and not from the
// run that starts it: a schedule is a chain of runs, and each of them must find the existing run of
// a tick. All runs of a schedule have the slot of the workflow ID that they may share, regardless
// of the overlap policy, because an update may change the policy.
func TickRunID(schedule, tick string, at time.Time) RunID {
	var u ulid.ULID
	sum := sha256.Sum256([]byte("schedule\x00" + schedule + "\x00" + tick))
	copy(u[6:14], sum[:])
	ms := min(max(at.UnixMilli(), 0), int64(ulid.MaxTime()))
	if err := u.SetTime(uint64(ms)); err != nil {
		panic("event: " + err.Error()) // cannot happen: the time was clamped
	}
	binary.BigEndian.PutUint16(u[14:], SlotOf(TicksRunID(schedule)))
	return RunID(PrefixRun + "_" + u.String())
}
