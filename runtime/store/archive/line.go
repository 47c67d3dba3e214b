package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Format is the version of the format. This release writes and reads only this version.
const Format = 1

// Kind is the kind of a line.
type Kind string

// Kinds of lines, in their order in a file.
const (
	KindHead   Kind = "head"
	KindRun    Kind = "run"
	KindFrame  Kind = "frame"
	KindStream Kind = "stream"
	KindChunk  Kind = "chunk"
	KindBlob   Kind = "blob"
	KindPiece  Kind = "piece"
	KindEnd    Kind = "end"
)

// Counts contains the number of lines of each kind.
type Counts struct {
	Runs    int `json:"runs"`
	Frames  int `json:"frames"`
	Streams int `json:"streams"`
	Chunks  int `json:"chunks"`
	Blobs   int `json:"blobs,omitempty"`   // including those that are missing
	Missing int `json:"missing,omitempty"` // number of blobs that the source did not have
}

// add counts a line.
func (c *Counts) add(l *line) {
	switch l.Kind {
	case KindRun:
		c.Runs++
	case KindFrame:
		c.Frames++
	case KindStream:
		c.Streams++
	case KindChunk:
		c.Chunks++
	case KindBlob:
		c.Blobs++
		if l.Missing {
			c.Missing++
		}
	}
}

// Head is the first line of a file.
type Head struct {
	Source   string    // kind of the store, such as sqlite
	Exported time.Time // time at which the export began
}

// Stream describes a stream. Its chunks follow. For an empty stream First is Last + 1.
type Stream struct {
	Name        string
	First, Last uint64
	Closed      bool
}

// Blob describes data that a run keeps outside of the store. Its pieces follow.
type Blob struct {
	Name    string
	Size    int64
	Missing bool // the source did not have it; it has no pieces
}

// pieceSize is the size of the pieces of a blob, except the last one. A line must not be as long as a
// large blob.
const pieceSize = 1 << 20

// line is the encoded form of a line.
type line struct {
	Kind     Kind      `json:"line"`
	Format   int       `json:"format,omitempty"`
	Source   string    `json:"source,omitempty"`
	Exported time.Time `json:"exported,omitzero"`
	Run      *record   `json:"run,omitempty"`
	Frames   uint64    `json:"frames,omitempty"`
	Streams  int       `json:"streams,omitempty"`
	N        uint64    `json:"n,omitempty"`
	Name     *text     `json:"name,omitempty"`
	First    uint64    `json:"first,omitempty"`
	Last     uint64    `json:"last,omitempty"`
	Closed   bool      `json:"closed,omitempty"`
	Blob     string    `json:"blob,omitempty"` // name of a blob
	Size     int64     `json:"size,omitempty"`
	Missing  bool      `json:"missing,omitempty"`
	Body     *[]byte   `json:"body,omitempty"`
	Counts   *Counts   `json:"counts,omitempty"`
}

// text is a string that may contain any bytes.
type text string

// MarshalJSON encodes bytes that are not valid UTF-8 as base64.
func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(t))})
}

// UnmarshalJSON decodes both forms that MarshalJSON writes.
func (t *text) UnmarshalJSON(b []byte) error {
	var plain string
	if err := json.Unmarshal(b, &plain); err == nil {
		*t = text(plain)
		return nil
	}
	var coded struct {
		Base64 []byte `json:"base64"`
	}
	err := json.Unmarshal(b, &coded)
	*t = text(coded.Base64)
	return err
}

// record is the encoded form of a store.Record.
type record struct {
	ID           event.RunID       `json:"id"`
	Chain        event.RunID       `json:"chain,omitempty"` // first run of the chain; empty for the first run itself
	WorkflowID   text              `json:"workflowId,omitempty"`
	Queue        string            `json:"queue"`
	Workflow     string            `json:"workflow"`
	Priority     int               `json:"priority,omitempty"`
	Tags         map[string]string `json:"tags,omitempty"`
	Parent       event.RunID       `json:"parent,omitempty"`
	Root         event.RunID       `json:"root,omitempty"`
	State        string            `json:"state"`
	Status       event.Status      `json:"status"`
	Events       uint64            `json:"events"`
	Commit       string            `json:"commit"` // ID of the last commit
	Epoch        uint64            `json:"epoch,omitempty"`
	Due          time.Time         `json:"due,omitzero"`
	Next         event.RunID       `json:"next,omitempty"`
	Rerun        event.RunID       `json:"rerun,omitempty"` // last rerun of the run
	CreatedAt    time.Time         `json:"createdAt"`
	EndedAt      time.Time         `json:"endedAt,omitzero"`
	Retention    string            `json:"retention"`
	FailureGroup *failureGroup     `json:"trouble,omitempty"`
	Uses         []use             `json:"uses,omitempty"`
	Whole        bool              `json:"whole,omitempty"`
	WaitsSince   time.Time         `json:"waitsSince,omitzero"`
	Fair         string            `json:"fair,omitempty"`
	Share        int               `json:"share,omitempty"`
}

type failureGroup struct {
	Group    string            `json:"group"`
	Kind     store.FailureKind `json:"kind,omitempty"`
	Workflow string            `json:"workflow,omitempty"`
	Step     string            `json:"step,omitempty"`
	Text     string            `json:"text,omitempty"`
}

type use struct {
	Limit  string `json:"limit"`
	Key    string `json:"key,omitempty"`
	Weight int    `json:"weight"`
	Nested bool   `json:"nested,omitempty"`
	Local  bool   `json:"local,omitempty"`
}

// recordOf returns the encoded form of a record.
func recordOf(r *store.Record, t store.FailureGroup) *record {
	w := &record{
		ID: r.Run, WorkflowID: text(r.WorkflowID), Queue: r.Route.Queue, Workflow: r.Route.Workflow, Priority: r.Priority, Tags: r.Tags,
		Parent: r.Parent, Root: r.Root, State: r.QueueState.String(), Status: r.Status, Events: r.Seq, Commit: r.Last.String(), Epoch: r.Fence.Epoch,
		Due: r.Due.UTC(), Next: r.Next, Rerun: r.Rerun, CreatedAt: r.CreatedAt.UTC(), EndedAt: r.EndedAt.UTC(), Retention: r.Retention.String(), Whole: r.Whole,
		WaitsSince: r.WaitsSince.UTC(), Fair: r.Fair, Share: r.Share,
	}
	if r.Chain != r.Run {
		w.Chain = r.Chain
	}
	if t.Group != "" {
		w.FailureGroup = &failureGroup{t.Group, t.Kind, t.Workflow, t.Step, t.Text}
	}
	for _, u := range r.Uses {
		w.Uses = append(w.Uses, use{u.Name, u.Key, u.Weight, u.Nested, u.Local})
	}
	return w
}

// record returns the record and the failure group that recordOf has encoded.
func (w *record) record() (r store.Record, t store.FailureGroup, err error) {
	r = store.Record{
		Run: w.ID, Chain: w.Chain, WorkflowID: string(w.WorkflowID), Route: store.Route{Queue: w.Queue, Workflow: w.Workflow}, Priority: w.Priority, Tags: w.Tags,
		Parent: w.Parent, Root: w.Root, Status: w.Status, Seq: w.Events, Fence: store.Fence{Epoch: w.Epoch}, Due: w.Due, Next: w.Next, Rerun: w.Rerun,
		CreatedAt: w.CreatedAt, EndedAt: w.EndedAt, Whole: w.Whole, WaitsSince: w.WaitsSince, Fair: w.Fair, Share: w.Share,
	}
	if r.Chain == "" {
		r.Chain = r.Run
	}
	for _, u := range w.Uses {
		r.Uses = append(r.Uses, store.Use{LimitID: store.LimitID{Name: u.Limit, Key: u.Key}, Weight: u.Weight, Nested: u.Nested, Local: u.Local})
	}
	if w.FailureGroup != nil {
		r.Group, t = w.FailureGroup.Group, store.FailureGroup{Group: w.FailureGroup.Group, Kind: w.FailureGroup.Kind, Workflow: w.FailureGroup.Workflow, Step: w.FailureGroup.Step, Text: w.FailureGroup.Text}
	}
	for s := store.StateReady; s <= store.StateEnded; s++ {
		if s.String() == w.State {
			r.QueueState = s
		}
	}
	commit, err := hex.DecodeString(w.Commit)
	if err != nil || copy(r.Last[:], commit) != len(r.Last) || len(commit) != len(r.Last) {
		return r, t, fmt.Errorf("the commit is %q", w.Commit)
	}
	if r.Retention, err = time.ParseDuration(w.Retention); err != nil || r.Retention <= 0 {
		return r, t, fmt.Errorf("the retention is %q", w.Retention)
	}
	if _, err := event.ParseRunID(string(r.Run)); err != nil || r.QueueState == 0 {
		return r, t, fmt.Errorf("the id is %q, the state %q", w.ID, w.State)
	}
	return r, t, nil
}

// sum is the sum of a line. It depends on all preceding lines.
type sum [8]byte

const (
	sumBefore = `,"sum":"`
	sumAfter  = `"}`
	sumSize   = len(sumBefore) + 2*len(sum{}) + len(sumAfter)
)

// next returns the sum of the next line. body is that line without its sum.
func (s sum) next(body []byte) (n sum) {
	h := sha256.New()
	h.Write(s[:])
	h.Write(body)
	copy(n[:], h.Sum(nil))
	return n
}

// seal appends the sum and a newline to a line. The line must be an object with at least one field.
// seal may modify body.
func (s *sum) seal(body []byte) []byte {
	*s = s.next(body)
	body = append(body[:len(body)-1], sumBefore...)
	body = hex.AppendEncode(body, s[:])
	return append(body, sumAfter+"\n"...)
}

var errSum = errors.New("its checksum does not match the line and those before it: it was changed, or lines are missing or in another order")

// open checks the sum of a line without the newline, and returns the line without the sum.
func (s *sum) open(sealed []byte) (body []byte, err error) {
	at := len(sealed) - sumSize
	if at < 2 || !bytes.HasPrefix(sealed[at:], []byte(sumBefore)) || !bytes.HasSuffix(sealed, []byte(sumAfter)) {
		return nil, errors.New("it does not end with a checksum")
	}
	body = append(bytes.Clone(sealed[:at]), '}')
	want := s.next(body)
	if got := sealed[at+len(sumBefore) : len(sealed)-len(sumAfter)]; string(got) != hex.EncodeToString(want[:]) {
		return nil, errSum
	}
	*s = want
	return body, nil
}
