package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A journal says what people and programs have asked of the runs in a store. It is no part of any run, and no run needs it: a
// store keeps what it is told, up to a number and an age of entries, and a worker never looks at it.
//
// Whoever acts writes an entry without an outcome before, and the same entry with the outcome after that. So whatever
// has been done is in the journal: an entry that has no outcome says that it may have been done, by somebody who
// was interrupted.

// Journaler is a store that keeps a journal.
type Journaler interface {
	// WriteJournal writes an entry, or replaces the one of the same id. When it returns nil the entry is as durable
	// as a commit. Then it forgets the oldest entries that are too many or too old, some at a time: see JournalTrim.
	// An entry whose id is none is an *InvalidError.
	WriteJournal(ctx context.Context, e JournalEntry, keep JournalKeep) error
	// Journal returns a page of entries, the newest first.
	Journal(ctx context.Context, q JournalQuery) (JournalPage, error)
}

// JournalEntry says what somebody has asked for, and what has come of it. Texts are kept up to MaxJournalText bytes each;
// what is no text in them is replaced.
type JournalEntry struct {
	ID        string    `json:"-"`           // of NewJournalID, which has the time
	Time      time.Time `json:"-"`           // of the id
	Principal string    `json:"p"`           // who has asked
	Owner     string    `json:"b,omitempty"` // to whose runs the principal is limited; empty: to nobody's
	Face      string    `json:"f"`           // by what: cli, api, console, …
	Action    string    `json:"a"`
	Target    string    `json:"t,omitempty"` // as it was named
	Run       string    `json:"r,omitempty"` // that it is about; empty: not known, or none
	New       string    `json:"n,omitempty"` // the run that was made
	Detail    string    `json:"d,omitempty"` // a workflow, a step, a topic
	Reason    string    `json:"w,omitempty"`
	Key       string    `json:"k,omitempty"` // of the request
	// Outcome is empty while it is not known, JournalOK, or the code of a problem.
	Outcome string `json:"o,omitempty"`
}

// JournalOK is the outcome of what was done.
const JournalOK = "ok"

// JournalKeep says what of a journal is kept. The zero value: all.
type JournalKeep struct {
	Most int           // entries; not positive: any number
	For  time.Duration // how much older than the one that is written they may be; not positive: any time
}

const (
	// MaxJournalText bounds each text of an entry, in bytes.
	MaxJournalText = 1024
	// JournalTrim is how many entries are forgotten with one that is written, at most, for their number and for their age: a journal
	// whose limits were lowered becomes shorter with each entry.
	JournalTrim = 1000
)

// NewJournalID returns an id for an entry of a time: its milliseconds since 1970 in 12 hex digits, 4 that count those of one
// millisecond, and 12 random ones. So ids sort by time, and those that one process makes sort as it has made them.
func NewJournalID(now time.Time) string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // which never fails
	begin := journalIDAt(now)
	return begin + fmt.Sprintf("%04x", journalIDs.next(begin)) + hex.EncodeToString(b[:])
}

var journalIDs journalCounter

// journalCounter counts the ids of one millisecond.
type journalCounter struct {
	mu    sync.Mutex
	begin string
	n     uint16
}

// next returns how many ids with a beginning there were just now; what is beyond its range sorts at random.
func (c *journalCounter) next(begin string) uint16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if begin != c.begin {
		c.begin, c.n = begin, 0
	} else if c.n < math.MaxUint16 {
		c.n++
	}
	return c.n
}

// journalIDAt returns what the ids of entries of a time begin with: it is less than each of them, and more than those of
// entries before.
func journalIDAt(t time.Time) string {
	return fmt.Sprintf("%012x", min(max(t.UnixMilli(), 0), math.MaxInt64>>16))
}

// CheckJournalID returns the time of an id, and an *InvalidError if it is none.
func CheckJournalID(id string) (time.Time, error) {
	if len(id) == 28 && strings.Trim(id, "0123456789abcdef") == "" {
		ms, err := strconv.ParseInt(id[:12], 16, 64)
		if err == nil {
			return time.UnixMilli(ms).UTC(), nil
		}
	}
	return time.Time{}, &InvalidError{What: "id of a journal entry", Value: strings.ToValidUTF8(id[:min(len(id), 100)], ""), Reason: "is not 28 hex digits"}
}

// Pack returns what stores keep of an entry under its id.
func (e *JournalEntry) Pack() ([]byte, error) {
	if _, err := CheckJournalID(e.ID); err != nil {
		return nil, err
	}
	kept := *e
	for _, text := range []*string{&kept.Principal, &kept.Owner, &kept.Face, &kept.Action, &kept.Target, &kept.Run, &kept.New, &kept.Detail, &kept.Reason, &kept.Key, &kept.Outcome} {
		*text = KeptText(*text, MaxJournalText)
	}
	return json.Marshal(&kept)
}

// UnpackJournal returns the entry that was kept under an id.
func UnpackJournal(id string, body []byte) (JournalEntry, error) {
	var e JournalEntry
	at, err := CheckJournalID(id)
	if err == nil {
		err = json.Unmarshal(body, &e)
	}
	if err != nil {
		return JournalEntry{}, fmt.Errorf("read journal entry %q: %w", id, err)
	}
	e.ID, e.Time = id, at
	return e, nil
}

// Oldest returns the least id that is not too old when an entry is written; empty: none is.
func (k JournalKeep) Oldest(written string) string {
	at, err := CheckJournalID(written)
	if err != nil || k.For <= 0 {
		return ""
	}
	return journalIDAt(at.Add(-k.For))
}

// JournalQuery selects entries. The zero value selects all; all fields must match.
type JournalQuery struct {
	Principals []string // any of them
	Owner      string   // of the principal; empty: any
	Actions    []string
	Target     string // it was named so, or is a run of the entry
	Outcomes   []string
	From, To   time.Time // in [From, To), to the millisecond
	// Cursor continues after the page that returned it: it is the id of its last entry, or of the last one that was looked at.
	Cursor string
	Limit  int // of a page; not positive: 100
	// Budget is how many entries may be looked at; not positive: DefaultBudget.
	Budget int
}

// JournalPage is a part of a journal.
type JournalPage struct {
	Entries []JournalEntry
	Cursor  string // of the next page; empty: there is none
	// Partial says that the budget was spent before the page was full: the next page goes on there.
	Partial bool
}

// Range returns the ids between which the entries of the next page lie: from low on, and below high; high empty: there
// is no bound.
func (q *JournalQuery) Range() (low, high string, err error) {
	if !q.From.IsZero() {
		low = journalIDAt(q.From)
	}
	if !q.To.IsZero() {
		high = journalIDAt(q.To)
	}
	if q.Cursor != "" {
		if _, err := CheckJournalID(q.Cursor); err != nil {
			return "", "", fmt.Errorf("read cursor: %w", err)
		}
		if high == "" || q.Cursor < high {
			high = q.Cursor
		}
	}
	return low, high, nil
}

// Matches reports whether an entry in the range of the query is selected.
func (q *JournalQuery) Matches(e *JournalEntry) bool {
	one := func(all []string, is string) bool { return len(all) == 0 || slices.Contains(all, is) }
	return one(q.Principals, e.Principal) && (q.Owner == "" || q.Owner == e.Owner) && one(q.Actions, e.Action) && one(q.Outcomes, e.Outcome) &&
		(q.Target == "" || q.Target == e.Target || q.Target == e.Run || q.Target == e.New)
}

// JournalLine is an entry as it is kept.
type JournalLine struct {
	ID   string
	Body []byte // of JournalEntry.Pack
}
