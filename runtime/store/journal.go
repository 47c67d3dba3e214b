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

// A journal records the requests that people and programs have made about the runs of a store. It
// is not part of any run: a store keeps entries up to a number and an age, and workers never read
// them.
//
// The caller writes an entry without an outcome before the action, and the same entry with the
// outcome afterwards. So the journal contains every action: an entry without an outcome belongs to
// an action that was interrupted and may have been carried out.

// JournalSpace is the space of the entries that contain the journal. The key is the ID.
const JournalSpace = "journal"

// WriteJournal writes an entry, or replaces the entry of the same ID. When it returns nil, the entry
// is as durable as a commit. It then deletes some of the entries that exceed the number or the age
// in keep: see EntryTrim. It returns an *InvalidError if the ID of the entry is invalid.
func WriteJournal(ctx context.Context, s Entries, e JournalEntry, keep JournalKeep) error {
	body, err := e.pack()
	if err == nil {
		err = s.WriteEntry(ctx, EntryWrite{
			Entry: Entry{JournalSpace, e.ID, body}, Keep: EntryKeep{Most: max(keep.Most, 0), From: keep.oldest(e.ID)},
		})
	}
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// JournalEntry is a request and its outcome. Texts are cut to MaxJournalText bytes each, and
// invalid text in them is replaced.
type JournalEntry struct {
	ID        string    `json:"-"`           // as returned by NewJournalID; contains the time
	Time      time.Time `json:"-"`           // the time in the ID
	Principal string    `json:"p"`           // the principal that made the request
	Owner     string    `json:"b,omitempty"` // owner to whose runs the principal is restricted; empty if unrestricted
	Face      string    `json:"f"`           // interface of the request: cli, api, console, …
	Action    string    `json:"a"`
	Target    string    `json:"t,omitempty"` // target as named in the request
	Run       string    `json:"r,omitempty"` // run that the request concerns; empty if none or not known
	New       string    `json:"n,omitempty"` // the created run
	Detail    string    `json:"d,omitempty"` // a workflow, a step, a topic
	Reason    string    `json:"w,omitempty"`
	Key       string    `json:"k,omitempty"` // key of the request
	// Outcome is JournalOK or the code of a problem; empty while it is not known.
	Outcome string `json:"o,omitempty"`
}

// JournalOK is the outcome of a successful action.
const JournalOK = "ok"

// JournalKeep defines which entries of a journal are kept. The zero value keeps all.
type JournalKeep struct {
	Most int           // maximum number of entries; not positive means any number
	For  time.Duration // maximum age relative to the entry that is written; not positive means any age
}

// MaxJournalText is the maximum length of each text of an entry, in bytes.
const MaxJournalText = 1024

// NewJournalID returns an ID for an entry with a time: its milliseconds since 1970 in 12 hex
// digits, a counter in 4 digits, and 12 random ones. So IDs are sorted by time, and those of one
// process and one millisecond in the order of their creation.
func NewJournalID(now time.Time) string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	begin := journalIDAt(now)
	return begin + fmt.Sprintf("%04x", journalIDs.next(begin)) + hex.EncodeToString(b[:])
}

var journalIDs journalCounter

// journalCounter counts the IDs of a process.
type journalCounter struct {
	mu    sync.Mutex
	begin string // the greatest prefix
	n     uint16
}

// next returns a number for an ID with the prefix begin. It is greater than the numbers of preceding
// IDs with this prefix, also if IDs of other times were created in between: callers take the time
// before they call, and two stores may have different clocks. So the count begins again only with a
// later time, and only once it nears its end. IDs beyond its range are sorted at random.
func (c *journalCounter) next(begin string) uint16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if begin > c.begin {
		if c.begin = begin; c.n >= math.MaxUint16/4*3 {
			c.n = 0
			return 0
		}
	}
	if c.n < math.MaxUint16 {
		c.n++
	}
	return c.n
}

// journalIDAt returns the prefix of the IDs of entries with a time: it is less than each of them,
// and greater than those of earlier entries.
func journalIDAt(t time.Time) string {
	return fmt.Sprintf("%012x", min(max(t.UnixMilli(), 0), math.MaxInt64>>16))
}

// CheckJournalID returns the time of an ID, or an *InvalidError.
func CheckJournalID(id string) (time.Time, error) {
	if len(id) == 28 && strings.Trim(id, "0123456789abcdef") == "" {
		ms, err := strconv.ParseInt(id[:12], 16, 64)
		if err == nil {
			return time.UnixMilli(ms).UTC(), nil
		}
	}
	return time.Time{}, &InvalidError{What: "id of a journal entry", Value: strings.ToValidUTF8(id[:min(len(id), 100)], ""), Reason: "is not 28 hex digits"}
}

// pack returns the value of the entry. It does not contain the ID.
func (e *JournalEntry) pack() ([]byte, error) {
	if _, err := CheckJournalID(e.ID); err != nil {
		return nil, err
	}
	kept := *e
	for _, text := range []*string{&kept.Principal, &kept.Owner, &kept.Face, &kept.Action, &kept.Target, &kept.Run, &kept.New, &kept.Detail, &kept.Reason, &kept.Key, &kept.Outcome} {
		*text = KeptText(*text, MaxJournalText)
	}
	return json.Marshal(&kept)
}

// unpackJournal decodes the entry that is stored under an ID.
func unpackJournal(id string, body []byte) (JournalEntry, error) {
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

// oldest returns the lowest ID that is not too old when the entry written is stored; empty if there
// is no maximum age.
func (k JournalKeep) oldest(written string) string {
	at, err := CheckJournalID(written)
	if err != nil || k.For <= 0 {
		return ""
	}
	return journalIDAt(at.Add(-k.For))
}

// JournalQuery selects entries. The zero value selects all; all fields must match.
type JournalQuery struct {
	Principals []string // any of these
	Owner      string   // of the principal; empty selects all
	Actions    []string
	Target     string // target as named in the request, or a run of the entry
	Outcomes   []string
	From, To   time.Time // in [From, To), in milliseconds
	// Cursor continues after the page that returned it: it is the ID of the last entry that was
	// read.
	Cursor string
	Limit  int // entries per page; not positive means 100
	// Budget is the maximum number of entries to read; not positive means DefaultBudget.
	Budget int
}

// JournalPage is a page of a journal.
type JournalPage struct {
	Entries []JournalEntry
	Cursor  string // of the next page; empty for the last page
	// Partial reports that the budget was exhausted before the page was full. The next page
	// continues from there.
	Partial bool
}

// Range returns the range of the IDs of the next page: from low, inclusive, to high, exclusive; an
// empty high means no bound.
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

// matches reports whether the query selects an entry in its range.
func (q *JournalQuery) matches(e *JournalEntry) bool {
	one := func(all []string, is string) bool { return len(all) == 0 || slices.Contains(all, is) }
	return one(q.Principals, e.Principal) && (q.Owner == "" || q.Owner == e.Owner) && one(q.Actions, e.Action) && one(q.Outcomes, e.Outcome) &&
		(q.Target == "" || q.Target == e.Target || q.Target == e.Run || q.Target == e.New)
}

// journalRead bounds how many entries of a journal are read at once.
const journalRead = 1000

// Journal returns a page of the journal, newest entry first. It leaves out entries that cannot be
// read.
func Journal(ctx context.Context, s Entries, q JournalQuery) (JournalPage, error) {
	low, high, err := q.Range()
	if err != nil {
		return JournalPage{}, err
	}
	limit, budget := q.Limit, q.Budget
	if limit <= 0 {
		limit = 100
	}
	if budget <= 0 {
		budget = DefaultBudget
	}
	var page JournalPage
	n := min(budget+1, limit+1, journalRead) // one more, to find out whether there are more
	err = eachEntry(ctx, s, EntryQuery{Space: JournalSpace, From: low, Below: high, Newest: true, Limit: n}, func(found *Entry) bool {
		if budget == 0 {
			page.Cursor, page.Partial = high, true
			return false
		}
		e, err := unpackJournal(found.Key, found.Value)
		if err == nil && q.matches(&e) {
			if len(page.Entries) == limit {
				page.Cursor = page.Entries[limit-1].ID
				return false
			}
			page.Entries = append(page.Entries, e)
		}
		budget--
		high = found.Key
		return true
	})
	if err != nil {
		return JournalPage{}, fmt.Errorf("read journal: %w", err)
	}
	return page, nil
}
