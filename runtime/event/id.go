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

// The prefixes of the ids of this package. An id is a prefix, '_' and a ULID of
// 26 characters, so that ids of one kind sort by the
// time of their creation, but for those of DerivedRunID.
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

// RunID names a run: "wrun_" and a ULID. It is a type of its own, so that a
// workflow id (a plain string of the user's) is not taken for it by mistake.
type RunID string

// NewRunID returns a new id that was created at now and is routed by slot. It
// panics if now is before 1970 or after the year 10889, which no ULID can hold.
func NewRunID(now time.Time, slot uint16) RunID {
	var u ulid.ULID
	_, _ = rand.Read(u[6:14]) // crypto/rand.Read never fails
	if err := u.SetTime(ulid.Timestamp(now)); err != nil {
		panic(fmt.Sprintf("event: run created at %v: %v", now, err))
	}
	binary.BigEndian.PutUint16(u[14:], slot)
	return RunID(PrefixRun + "_" + u.String())
}

// ParseRunID checks that s has the form of a run id. The error says what is
// wrong with it, and that a workflow id is looked up another way.
func ParseRunID(s string) (RunID, error) {
	if _, err := parseRun(s); err != nil {
		return "", fmt.Errorf("parse run id %q: %w", s, err)
	}
	return RunID(s), nil
}

// Slot returns the number by which stores choose the partition of the run. It
// is part of the id, so that routing needs no look-up. An id that does not
// parse has slot 0.
func (id RunID) Slot() uint16 {
	u, err := parseRun(string(id))
	if err != nil {
		return 0
	}
	return binary.BigEndian.Uint16(u[14:])
}

// Time returns when the id was made, to the millisecond, by the clock of whoever started
// the run; for a run that another one has started, when that one's id was. The zero time:
// the id does not parse.
func (id RunID) Time() time.Time {
	u, err := parseRun(string(id))
	if err != nil {
		return time.Time{}
	}
	return ulid.Time(u.Time()).UTC()
}

// SlotOf returns the slot of a workflow id: the runs that share a workflow id
// share a partition.
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
	// ULIDs are case-insensitive; ids are compared as strings.
	if u.String() != s[len(PrefixRun)+1:] {
		return u, fmt.Errorf("it is not in upper case")
	}
	return u, nil
}

// derivedID returns the id of the thing number n of a run. It is computed
// rather than stored: the same log gives the same ids.
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
		panic("event: " + err.Error()) // the time was clamped
	}
	return prefix + "_" + u.String()
}

// CommitID is the random name of a frame. A position in a log is the CommitID of its last
// frame, never a count: counts repeat after lost writes, CommitIDs do not.
type CommitID [16]byte

// NewCommitID returns a new random CommitID.
func NewCommitID() CommitID {
	var c CommitID
	_, _ = rand.Read(c[:])
	return c
}

// String returns the CommitID in hexadecimal.
func (c CommitID) String() string { return hex.EncodeToString(c[:]) }

// Token is the random half of a fence, made by the worker for each claim call.
type Token [8]byte

// NewToken returns a new random token.
func NewToken() Token {
	var t Token
	_, _ = rand.Read(t[:])
	return t
}

// String returns the token in hexadecimal.
func (t Token) String() string { return hex.EncodeToString(t[:]) }

// ItemID names an inbox item. Senders choose it once and repeat it when they
// repeat the request, so that it is delivered once.
type ItemID string

// NewItemID returns a new random item id.
func NewItemID() ItemID {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return ItemID(hex.EncodeToString(b[:]))
}

// DerivedItemID returns the id of what a run sends by one of its operations. The
// same operation, executed again after a store has lost writes, has the same id,
// and meets what it did before.
func DerivedItemID(sender RunID, operation string) ItemID {
	sum := sha256.Sum256([]byte(string(sender) + "\x00" + operation))
	return ItemID(hex.EncodeToString(sum[:16]))
}

// DerivedRunID returns the id of the run that a run starts by one of its
// operations; it is routed by slot.
//
// It is derived from nothing else, and must not be: the id is the idempotency key of the
// creation. A store that has failed over may have lost the last writes of the sender,
// but not the run that these have started in another partition. Then the sender executes
// the operation again, asks for a run with the same id, and meets the one that exists. An
// id with a time or a random part of its own would be another one, and the run would be
// started twice. So the time of the id is that of the sender's: whatever needs the time of
// creation, as lists do, has to ask the store for it.
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

// NextRunID returns the id of the run that a run continues as by its event seq,
// at now. It has the slot of the run, and is the same whenever it is asked for.
func NextRunID(run RunID, seq uint64, now time.Time) RunID {
	next, err := parseRun(PrefixRun + "_" + derivedID("next", run, seq, now)[len("next_"):])
	if err != nil {
		panic("event: " + err.Error()) // derivedID gives ids
	}
	binary.BigEndian.PutUint16(next[14:], run.Slot())
	return RunID(PrefixRun + "_" + next.String())
}
