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

// A journal records the requests of people and programs about the runs of a store. It is not part
// of any run. A store keeps a limited number of entries for a limited time, and workers never read
// them.
//
// The caller writes an entry without an outcome before the action, and the same entry with the
// outcome afterwards. So the journal contains every action. If an entry has no outcome, the action
// was interrupted and may have been carried out.

// JournalSpace is the space of the entries of the journal. The key of an entry is its ID.
const JournalSpace = "journal"

// WriteJournal writes an entry, or replaces the entry with the same ID. If it returns nil, the
// entry is as durable as a commit. After the write, it deletes some of the entries that exceed the
// number or the age in keep: see EntryTrim. It returns an *InvalidError if the ID of the entry is
// invalid.
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

// JournalEntry is a request and its outcome. Each text is cut to MaxJournalText bytes, and invalid
// text is replaced.
type JournalEntry struct {
	ID        string    `json:"-"`           // result of NewJournalID, which contains the time
	Time      time.Time `json:"-"`           // time in the ID
	Principal string    `json:"p"`           // principal that has made the request
	Owner     string    `json:"b,omitempty"` // owner to whose runs the principal is restricted; empty if there is no restriction
	Face      string    `json:"f"`           // interface of the request, such as cli, api or console
	Action    string    `json:"a"`
	Target    string    `json:"t,omitempty"` // target as given in the request
	Run       string    `json:"r,omitempty"` // run that the request concerns; empty if there is none or it is unknown
	New       string    `json:"n,omitempty"` // run that the request has created
	Detail    string    `json:"d,omitempty"` // additional value, such as a workflow, a step or a topic
	Reason    string    `json:"w,omitempty"`
	Key       string    `json:"k,omitempty"` // idempotency key of the request
	// Outcome is JournalOK or the code of a problem. It is empty until the outcome is known.
	Outcome string `json:"o,omitempty"`
}

// JournalOK is the outcome of a successful action.
const JournalOK = "ok"

// JournalKeep defines which entries of a journal are kept. The zero value keeps all entries.
type JournalKeep struct {
	Most int           // maximum number of entries; no maximum if not positive
	For  time.Duration // maximum age relative to the written entry; no maximum if not positive
}

// MaxJournalText is the maximum length of each text of an entry, in bytes.
const MaxJournalText = 1024

// NewJournalID returns an ID for an entry with the time now. The ID contains the milliseconds since
// 1970 in 12 hex digits, a counter in 4 digits, and 12 random digits. IDs sort by time. IDs of the
// same process and millisecond sort in the order of their creation.
func NewJournalID(now time.Time) string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	begin := journalIDAt(now)
	return begin + fmt.Sprintf("%04x", journalIDs.next(begin)) + hex.EncodeToString(b[:])
}

var journalIDs journalCounter

// journalCounter is the counter of the IDs of a process.
type journalCounter struct {
	mu    sync.Mutex
	begin string // greatest prefix so far
	n     uint16
}

// next returns the counter for an ID with the prefix begin. It is greater than the counters of all
// earlier IDs with this prefix. IDs with other prefixes may be created in between, because callers
// read the time before they call next, and two stores may have different clocks. Therefore the
// counter restarts only with a later prefix and only if it is close to its end. IDs beyond the end
// have a random order.
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

// journalIDAt returns the prefix of the IDs of entries with the time t. It is less than each of
// these IDs, and greater than the IDs of earlier entries.
func journalIDAt(t time.Time) string {
	return fmt.Sprintf("%012x", min(max(t.UnixMilli(), 0), math.MaxInt64>>16))
}

// CheckJournalID returns the time in an ID. It returns an *InvalidError if the ID is invalid.
func CheckJournalID(id string) (time.Time, error) {
	if len(id) == 28 && strings.Trim(id, "0123456789abcdef") == "" {
		ms, err := strconv.ParseInt(id[:12], 16, 64)
		if err == nil {
			return time.UnixMilli(ms).UTC(), nil
		}
	}
	return time.Time{}, &InvalidError{What: "id of a journal entry", Value: strings.ToValidUTF8(id[:min(len(id), 100)], ""), Reason: "is not 28 hex digits"}
}

// pack encodes the value of the entry. The value does not contain the ID, which is the key.
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

// unpackJournal decodes the entry with the given ID.
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

// oldest returns the lowest ID that is kept when the entry with the ID written is stored. It is
// empty if there is no maximum age.
func (k JournalKeep) oldest(written string) string {
	at, err := CheckJournalID(written)
	if err != nil || k.For <= 0 {
		return ""
	}
	return journalIDAt(at.Add(-k.For))
}

// JournalQuery selects entries of the journal. An entry must match all fields. The zero value
// selects all entries.
type JournalQuery struct {
	Principals []string // principals, any of which matches; empty selects all
	Owner      string   // owner of the principal; empty selects all
	Actions    []string
	Target     string // target as given in the request, or a run of the entry
	Outcomes   []string
	From, To   time.Time // entries from From until before To, in whole milliseconds
	// Cursor is the cursor of the previous page: the ID of the last entry that was read.
	Cursor string
	Limit  int // maximum number of entries of the page; 100 if not positive
	// Budget is the maximum number of entries to read. If it is not positive, DefaultBudget is
	// used.
	Budget int
}

// JournalPage is a page of a journal.
type JournalPage struct {
	Entries []JournalEntry
	Cursor  string // cursor for the next page; empty for the last page
	// Partial reports that the budget was exhausted before the page was full. The next page
	// continues after the last entry that was read.
	Partial bool
}

// Range returns the range of the IDs of the next page: from low, inclusive, to high, exclusive. An
// empty high means no upper bound.
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

// matches reports whether the query selects an entry within its range of IDs.
func (q *JournalQuery) matches(e *JournalEntry) bool {
	one := func(all []string, is string) bool { return len(all) == 0 || slices.Contains(all, is) }
	return one(q.Principals, e.Principal) && (q.Owner == "" || q.Owner == e.Owner) && one(q.Actions, e.Action) && one(q.Outcomes, e.Outcome) &&
		(q.Target == "" || q.Target == e.Target || q.Target == e.Run || q.Target == e.New)
}

// journalRead is the maximum number of entries of a journal in one read.
const journalRead = 1000

// Journal returns a page of the journal, newest entry first. It omits entries that cannot be
// decoded.
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
	n := min(budget+1, limit+1, journalRead) // one more than needed, to detect whether there are further entries
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
