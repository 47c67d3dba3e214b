package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/flowgen/flowgen/admin"
	flowevent "github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
)

// Limits of the part of a payload that a page shows. The whole payload can be downloaded.
const (
	maxNodes = 300
	maxDepth = 12
	maxText  = 2000
)

// payloadView is formatted JSON.
type payloadView struct {
	Size int
	Tree *valueView
	Text string // beginning of the stored text
	Cut  bool   // whether the payload is longer than Text
	// Sealed is the mark of a sealed payload, which has no other fields except its size.
	Sealed string
}

// valueView is one JSON value.
type valueView struct {
	Name   string // name of a field, or index of an element
	Text   string // a scalar value, or a summary of an object or array
	Kind   string // string, number, word, object or array
	Parts  []*valueView
	Opened bool
}

// payloadOf formats JSON. It returns nil for an empty payload.
func payloadOf(b []byte) *payloadView {
	if len(b) == 0 {
		return nil
	}
	if m := markOf(string(b)); m != nil {
		return &payloadView{Size: int(m.Size), Sealed: string(b)}
	}
	p := &payloadView{Size: len(b), Text: cutLines(b)}
	p.Cut = len(b) > maxText
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber() // keeps all digits of numbers
	r := &valueReader{d: d, left: maxNodes}
	p.Tree = r.value("", 0)
	if r.left <= 0 || r.deep {
		p.Cut = true
	}
	return p
}

func cutLines(b []byte) string {
	if bytes.Contains(b, []byte(markOpens)) {
		return visible(string(b))
	}
	more := ""
	if len(b) > maxText {
		b, more = b[:maxText], "…"
	}
	return visible(strings.ToValidUTF8(string(b), "")) + more
}

// valueReader reads the part of a value that a page shows.
type valueReader struct {
	d    *json.Decoder
	left int
	deep bool
}

// value reads one value. It returns nil if a limit is reached, so that the rest of the payload is
// not shown.
func (r *valueReader) value(name string, depth int) *valueView {
	if r.left <= 0 {
		return nil
	}
	r.left--
	token, err := r.d.Token()
	if err != nil {
		r.left = 0
		return nil
	}
	v := &valueView{Name: cut(80, name), Opened: depth < 2}
	switch t := token.(type) {
	case json.Delim:
		v.Kind = map[json.Delim]string{'{': "object", '[': "array"}[t]
		if depth >= maxDepth {
			r.deep, r.left = true, 0
			v.Text = "…"
			return v
		}
		r.parts(v, t == '{', depth)
	case string:
		v.Kind, v.Text = "string", quoted(t)
	case json.Number:
		v.Kind, v.Text = "number", cut(100, t.String())
	default:
		v.Kind, v.Text = "word", fmt.Sprint(t)
		if t == nil {
			v.Text = "null"
		}
	}
	return v
}

func (r *valueReader) parts(v *valueView, named bool, depth int) {
	for i := 0; r.d.More() && r.left > 0; i++ {
		name := fmt.Sprint(i)
		if named {
			token, err := r.d.Token()
			if err != nil {
				r.left = 0
				return
			}
			name, _ = token.(string)
		}
		if part := r.value(name, depth+1); part != nil {
			v.Parts = append(v.Parts, part)
		}
	}
	if r.left > 0 {
		_, _ = r.d.Token() // the closing delimiter; after an error, the following reads fail as well
	}
	v.Text = plural(len(v.Parts), "element", "elements")
	if named {
		v.Text = plural(len(v.Parts), "field", "fields")
	}
}

func quoted(s string) string {
	if len(s) > maxText {
		return `"` + cutLines([]byte(s)) + `"`
	}
	return `"` + visible(s) + `"`
}

// A mark stands for sealed data in a text. Templates draw it as the description of the data, with
// the attributes that scripts need to open the data in the browser. Marks contain a random text, which
// user data cannot contain. So the place in a mark is the place where the page shows the data, and
// data that were moved to another place cannot be opened.
var markOpens = "\ue000" + rand.Text() + "."

const markCloses = "\ue001"

// mark describes sealed data and their place.
type mark struct {
	Owner, Field, Blobs string // see store.Place; Owner is empty if the place is unknown
	Key                 string // ID of the key; empty if the data are not encrypted
	Size                int64  // size of the user data in bytes
	Chunk               bool   // whether the data are a chunk of a stream, which contains more than the value
	Data                []byte
}

// markOf returns the mark that a text consists of. It returns nil for other texts.
func markOf(s string) *mark {
	s, ok := strings.CutPrefix(s, markOpens)
	if !ok {
		return nil
	}
	text, _, _ := strings.Cut(s, markCloses)
	b, _ := base64.RawStdEncoding.DecodeString(text) // made by String
	m := &mark{}
	_ = json.Unmarshal(b, m)
	return m
}

// markAt returns the mark for sealed data at a place.
func markAt(at store.Place, blobs string, data []byte) *mark {
	m := &mark{Owner: at.Owner, Field: at.Field, Blobs: blobs, Data: data}
	if s, err := flowevent.ReadSealed(data); err == nil {
		m.Key, m.Size = s.Key, s.Size
	}
	return m
}

// String returns the mark as a part of a text.
func (m *mark) String() string {
	b, _ := json.Marshal(m) // strings and numbers can be encoded
	return markOpens + base64.RawStdEncoding.EncodeToString(b) + markCloses
}

// aroundMarks applies f to the parts of a text between marks.
func aroundMarks(s string, f func(string) string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, markOpens)
		if before = f(before); b.Len() > 0 && before != "" {
			b.WriteByte(' ') // f may remove white space
		}
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if before != "" && !strings.HasSuffix(before, " ") {
			b.WriteByte(' ')
		}
		text, after, _ := strings.Cut(rest, markCloses)
		b.WriteString(markOpens + text + markCloses)
		s = after
	}
}

// beginning returns the first n bytes of a payload, or the whole mark of a sealed one.
func beginning(p admin.Payload, n int) string {
	if markOf(string(p)) != nil {
		return string(p)
	}
	return string(p[:min(len(p), n)])
}

// mostInline is the maximum size of sealed data in a page, in bytes. Larger payloads are fetched by
// scripts if the reader requests it.
const mostInline = 16 << 10

// drawMarks returns a text with its marks as HTML, or a string if it has none.
func (t *templates) drawMarks(s string) any {
	if !strings.Contains(s, markOpens) {
		return s
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, markOpens)
		template.HTMLEscape(&b, []byte(before))
		if !found {
			return template.HTML(b.String()) //nolint:gosec // all parts are escaped
		}
		text, after, _ := strings.Cut(rest, markCloses)
		t.drawMark(&b, markOf(markOpens+text))
		s = after
	}
}

func (t *templates) drawMark(b *strings.Builder, m *mark) {
	b.WriteString(`<span class="sealed"`)
	attribute := func(name, value string) {
		if value != "" {
			fmt.Fprintf(b, ` data-%s="%s"`, name, template.HTMLEscapeString(value))
		}
	}
	if t.h.cfg.CodecURL != "" && m.Owner != "" {
		if len(m.Data) <= mostInline {
			attribute("sealed", base64.StdEncoding.EncodeToString(m.Data))
		} else {
			attribute("src", m.source(t.h.cfg.Prefix))
		}
		attribute("owner", m.Owner)
		attribute("field", m.Field)
		attribute("blobs", m.Blobs)
		attribute("size", strconv.FormatInt(m.Size, 10))
		if m.Chunk {
			attribute("chunk", "true")
		}
	}
	b.WriteString(">sealed")
	if m.Key != "" {
		b.WriteString(", key " + template.HTMLEscapeString(m.Key))
	}
	fmt.Fprintf(b, ", %s</span>", size(int(m.Size)))
}

// source returns the URL of the sealed data of a large payload of an event. It returns the empty
// string for other data.
func (m *mark) source(prefix string) string {
	parts := strings.Split(m.Field, "/") // TYPE/SEQ/NAME
	if len(parts) != 3 || parts[2] != "payload" {
		return ""
	}
	return link(prefix, "runs", m.Owner, "payload", parts[1])
}

// placed is a Service that replaces sealed data by marks with their places.
type placed struct {
	Service

	mu     sync.Mutex
	chains map[string]string // chains of the runs that were read, which are the prefixes of their blobs
}

func (s *placed) chain(run string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chains[run]
}

func (s *placed) Run(ctx context.Context, ref string) (admin.Run, error) {
	r, err := s.Service.Run(ctx, ref)
	s.mu.Lock()
	if s.chains == nil {
		s.chains = map[string]string{}
	}
	s.chains[r.ID] = r.Chain
	s.mu.Unlock()
	created, ended := s.of(r.ID, "run_created", 1), s.of(r.ID, "run_"+r.Status, r.Events)
	r.Input, r.Attributes = created.payload(r.Input), created.attributes(r.Attributes, "spec.")
	r.Result, r.Failure = ended.payload(r.Result), ended.failure(r.Failure, "")
	nowhere := &spot{} // the log contains the places of these texts
	r.PauseReason, r.CancelReason = nowhere.text("", r.PauseReason), nowhere.text("", r.CancelReason)
	for i := range r.Retries {
		r.Retries[i].Failed = nowhere.text("", r.Retries[i].Failed)
	}
	return r, err
}

func (s *placed) Events(ctx context.Context, ref string, from uint64, limit int) (admin.EventPage, error) {
	page, err := s.Service.Events(ctx, ref, from, limit)
	for i := range page.Events {
		s.event(ref, &page.Events[i])
	}
	return page, err
}

func (s *placed) Follow(ctx context.Context, ref string, f admin.EventFilter) iter.Seq2[admin.Event, error] {
	return func(yield func(admin.Event, error) bool) {
		for e, err := range s.Service.Follow(ctx, ref, f) {
			s.event(ref, &e)
			if !yield(e, err) {
				return
			}
		}
	}
}

func (s *placed) event(run string, e *admin.Event) {
	at := s.of(run, e.Type, e.Seq)
	attributes := ""
	if e.Seq == 1 {
		attributes = "spec."
	}
	e.Payload, e.Failure, e.Reason, e.Attributes = at.payload(e.Payload), at.failure(e.Failure, ""), at.text("reason", e.Reason), at.attributes(e.Attributes, attributes)
}

func (s *placed) Inbox(ctx context.Context, ref string) (admin.Inbox, error) {
	in, err := s.Service.Inbox(ctx, ref)
	for i := range in.Items {
		item := &in.Items[i]
		at := &spot{owner: item.ID, prefix: item.Type + "/", blobs: s.chain(in.Run)}
		item.Payload, item.Failure, item.Reason = at.payload(item.Payload), at.failure(item.Failure, ""), at.text("reason", item.Reason)
	}
	return in, err
}

func (s *placed) Hooks(ctx context.Context, f admin.HookFilter) (admin.HookPage, error) {
	page, err := s.Service.Hooks(ctx, f)
	for i := range page.Hooks {
		h := &page.Hooks[i]
		opened := "hook_created"
		if h.Attempt > 0 {
			opened = "step_hook_created"
		}
		h.Description = s.of(h.Run, opened, h.Event).text("meta", h.Description)
	}
	return page, err
}

func (s *placed) Stream(ctx context.Context, ref, name string, from uint64, limit int) (admin.ChunkPage, error) {
	page, err := s.Service.Stream(ctx, ref, name, from, limit)
	for i := range page.Chunks {
		c := &page.Chunks[i]
		if data, sealed := flowevent.SealedData(c.Value); sealed {
			chain := s.chain(page.Run)
			m := markAt(ops.StreamPlace(flowevent.RunID(chain), name), chain, data)
			m.Chunk = true
			c.Value = admin.Payload(m.String())
		}
	}
	return page, err
}

func (s *placed) Journal(ctx context.Context, f admin.JournalFilter) (admin.JournalPage, error) {
	page, err := s.Service.Journal(ctx, f)
	for i := range page.Entries {
		e := &page.Entries[i]
		if data, sealed := flowevent.SealedText(e.Reason); sealed {
			e.Reason = markAt(store.ReasonPlace(e.ID), "", data).String()
		}
	}
	return page, err
}

func (s *placed) Bulk(ctx context.Context, id string) (admin.Bulk, error) {
	b, err := s.Service.Bulk(ctx, id)
	b.Failure = (&spot{}).text("", b.Failure)
	return b, err
}

// locate replaces sealed texts of a run by those of its log, whose places are known.
func (q *request) locate(r *admin.Run) {
	canceled, first := markOf(r.CancelReason) != nil, uint64(0)
	if !canceled && !slices.ContainsFunc(r.Retries, func(t admin.Retry) bool { return markOf(t.Failed) != nil }) {
		return
	}
	q.h.logs.with(q.ctx(), q, r.ID, r.Events, func(s *skeleton, _ error) { // the page of the log shows the error
		if requests := s.kinds["cancel_requested"]; requests != nil {
			first = uint64(requests.all[0].seq)
		}
		for i := range r.Retries {
			t := &r.Retries[i]
			if j := slices.IndexFunc(s.ops, func(o *operation) bool { return o.key == t.Key && o.note.text != "" }); j >= 0 {
				t.Failed = s.ops[j].note.text
			}
		}
	})
	if !canceled || first == 0 {
		return
	}
	if page, err := q.service.Events(q.ctx(), r.ID, first, 1); err == nil && len(page.Events) == 1 {
		r.CancelReason = page.Events[0].Reason
	}
}

// spot is an event or an item with sealed data.
type spot struct {
	owner, prefix, blobs string
}

func (s *placed) of(run, kind string, seq uint64) *spot {
	return &spot{owner: run, prefix: kind + "/" + strconv.FormatUint(seq, 10) + "/", blobs: s.chain(run)}
}

func (s *spot) mark(name string, data []byte) string {
	return markAt(store.Place{Owner: s.owner, Field: s.prefix + name}, s.blobs, data).String()
}

func (s *spot) json(name string, p admin.Payload) admin.Payload {
	if data, sealed := flowevent.SealedData(p); sealed {
		return admin.Payload(s.mark(name, data))
	}
	return p
}

func (s *spot) payload(p admin.Payload) admin.Payload { return s.json("payload", p) }

func (s *spot) text(name, text string) string {
	if data, sealed := flowevent.SealedText(text); sealed {
		return s.mark(name, data)
	}
	return text
}

func (s *spot) attributes(all map[string]string, prefix string) map[string]string {
	marked := maps.Clone(all)
	for key, value := range all {
		marked[key] = s.text(prefix+key, value)
	}
	return marked
}

// failure returns a failure with marks. path identifies a cause, see [flowevent.Part].
func (s *spot) failure(f *admin.Failure, path string) *admin.Failure {
	if f == nil {
		return nil
	}
	marked := *f
	marked.Message, marked.Data, marked.Stack, marked.Causes = s.text(path+"message", f.Message), s.json(path+"data", f.Data), s.text(path+"stack", f.Stack), nil
	for i, cause := range f.Causes {
		marked.Causes = append(marked.Causes, s.failure(cause, path+strconv.Itoa(i)+"."))
	}
	return &marked
}
