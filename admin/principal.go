package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Role says what somebody may do. Each role may do what those before it may.
type Role string

// The roles, from the lowest to the highest.
const (
	RoleViewer   Role = "viewer"   // sees runs and logs without what they carry
	RolePayloads Role = "payloads" // also inputs, results, messages and values
	RoleOperator Role = "operator" // also acts and sends
	RoleAdmin    Role = "admin"    // also deletes
)

// Roles returns all roles, from the lowest to the highest.
func Roles() []Role { return []Role{RoleViewer, RolePayloads, RoleOperator, RoleAdmin} }

// Allows reports whether the role is the other one or a higher one. What is no role allows
// nothing, and nothing allows it.
func (r Role) Allows(other Role) bool {
	mine, asked := slices.Index(Roles(), r), slices.Index(Roles(), other)
	return asked >= 0 && mine >= asked
}

// Principal is somebody who asks.
type Principal struct {
	Name string // for limits, messages and idempotency keys
	Role Role
	// Owner limits the principal to runs with the tag owner of this value, and to those without the tag that such a run has
	// started, such as its steps on queues; empty: all runs. All others look like they were not there.
	Owner string
	// Face is that by which the principal asks, for the journal, as [FaceAPI]; empty: FaceProgram.
	Face string
}

// ownerTag is the tag that says whose a run is.
const ownerTag = "owner"

// NotAllowedError says that a principal may not do what was asked for.
type NotAllowedError struct {
	What string
	Fix  string
}

// Error says what is not allowed, and the fix.
func (e *NotAllowedError) Error() string { return e.What + ": " + e.Fix }

// Need returns a *NotAllowedError if the role of the principal does not allow what needs another one.
func (p Principal) Need(role Role, what string) error {
	if p.Role.Allows(role) {
		return nil
	}
	return &NotAllowedError{What: fmt.Sprintf("%s needs the role %s", what, role), Fix: fmt.Sprintf("use a token of that role: this one has %q", string(p.Role))}
}

// As returns the service as a principal may use it: every decision about roles and owners is
// made here, so that each face makes the same ones. If the service is a [Recorder], whatever changes something is written
// into the journal, also what is refused: before it is done, and again with what has come of it.
func As(s Service, p Principal) Service { return journal(s, &limited{under: s, p: p}, p) }

// AsLocal returns the service for somebody who has opened the store itself: nothing is refused, and what changes
// something is written into the journal as by the face cli. Keys of starts are those of everybody who does so.
func AsLocal(s Service, name string) Service {
	p := Principal{Name: name, Role: RoleAdmin, Face: FaceCLI}
	return journal(s, &limited{under: s, p: p, local: true}, p)
}

func journal(s Service, as *limited, p Principal) Service {
	to, ok := s.(Recorder)
	if !ok {
		return as
	}
	return &journaled{Service: as, to: to, p: p}
}

// limited embeds no Service: what a Service can do more does not compile here until it is decided who may.
type limited struct {
	under Service
	p     Principal
	local bool // the store is open to the principal anyway
}

// owned limits a filter to the runs of the principal.
func (l *limited) owned(f Filter) (Filter, error) {
	if err := l.p.Need(RoleViewer, "to see runs"); err != nil {
		return f, err
	}
	if l.p.Owner == "" {
		return f, nil
	}
	if other, ok := f.Tags[ownerTag]; ok && other != l.p.Owner {
		return f, &NotAllowedError{What: "the filter asks for runs of another owner", Fix: "leave the tag owner out: the token decides it"}
	}
	f.Tags = maps.Clone(f.Tags)
	if f.Tags == nil {
		f.Tags = map[string]string{}
	}
	f.Tags[ownerTag] = l.p.Owner
	return f, nil
}

// Runs is part of Service.
func (l *limited) Runs(ctx context.Context, f Filter) (RunPage, error) {
	f, err := l.owned(f)
	if err != nil {
		return RunPage{}, err
	}
	page, err := l.under.Runs(ctx, f)
	for i := range page.Runs {
		l.hide(&page.Runs[i])
	}
	return page, err
}

// Count is part of Service.
func (l *limited) Count(ctx context.Context, f Filter) (Counts, error) {
	f, err := l.owned(f)
	if err != nil {
		return Counts{}, err
	}
	return l.under.Count(ctx, f)
}

// Failures is part of Service. The numbers and messages of groups are those of the runs of all.
func (l *limited) Failures(ctx context.Context, f FailureFilter) (FailurePage, error) {
	if err := l.all(RoleViewer, "see failures", "list runs with the filter troubled"); err != nil {
		return FailurePage{}, err
	}
	page, err := l.under.Failures(ctx, f)
	veil(l.p, &page)
	return page, err
}

// find returns a run that the principal may see.
func (l *limited) find(ctx context.Context, ref string) (Run, error) {
	if err := l.p.Need(RoleViewer, "to see runs"); err != nil {
		return Run{}, err
	}
	r, err := l.under.Run(ctx, ref)
	if l.p.Owner == "" {
		return r, err
	}
	mine := false
	if err == nil {
		mine, err = l.mine(ctx, &r)
	}
	if err == nil && !mine || errors.Is(err, workflow.ErrRunNotFound) || isNotFound(err) {
		// One text for both, so that nobody learns which runs there are.
		return Run{}, fmt.Errorf("find run %s: %w", ref, workflow.ErrRunNotFound)
	}
	return r, err
}

// mine reports whether a run is of the owner of the principal: the owner of a run is its tag, and without the tag that of its root.
func (l *limited) mine(ctx context.Context, r *Run) (bool, error) {
	owner, tagged := r.Tags[ownerTag]
	if !tagged && r.Root != "" && r.Root != r.ID {
		root, err := l.under.Run(ctx, r.Root)
		if err != nil {
			return false, err
		}
		owner = root.Tags[ownerTag]
	}
	return owner == l.p.Owner, nil
}

// isNotFound reports whether a remote service has found nothing.
func isNotFound(err error) bool {
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Code == CodeNotFound
}

// own returns the name of a run under which the service below is asked about it: that of a run
// that the principal may see.
func (l *limited) own(ctx context.Context, ref string) (string, error) {
	if l.p.Owner == "" {
		return ref, l.p.Need(RoleViewer, "to see runs")
	}
	r, err := l.find(ctx, ref)
	return r.ID, err // the id, for a workflow id could be another run's by now
}

// Run is part of Service.
func (l *limited) Run(ctx context.Context, ref string) (Run, error) {
	r, err := l.find(ctx, ref)
	l.show(&r)
	return r, err
}

// Events is part of Service.
func (l *limited) Events(ctx context.Context, ref string, from uint64, limit int) (EventPage, error) {
	ref, err := l.own(ctx, ref)
	if err != nil {
		return EventPage{}, err
	}
	page, err := l.under.Events(ctx, ref, from, limit)
	for i := range page.Events {
		l.hideEvent(&page.Events[i])
	}
	return page, err
}

// Entities is part of Service.
func (l *limited) Entities(ctx context.Context, ref string, f EntityFilter) (EntityPage, error) {
	ref, err := l.own(ctx, ref)
	if err != nil {
		return EntityPage{}, err
	}
	page, err := l.under.Entities(ctx, ref, f)
	veil(l.p, &page)
	if !l.p.Role.Allows(RolePayloads) {
		for i := range page.Entities {
			page.Entities[i].Failure = withoutData(page.Entities[i].Failure)
		}
	}
	return page, err
}

// Inbox is part of Service.
func (l *limited) Inbox(ctx context.Context, ref string) (Inbox, error) {
	ref, err := l.own(ctx, ref)
	if err != nil {
		return Inbox{}, err
	}
	in, err := l.under.Inbox(ctx, ref)
	veil(l.p, &in)
	if !l.p.Role.Allows(RolePayloads) {
		for i := range in.Items {
			in.Items[i].Payload, in.Items[i].Failure = nil, withoutData(in.Items[i].Failure)
		}
	}
	return in, err
}

// Graph is part of Service.
func (l *limited) Graph(ctx context.Context, ref, path string) (Graph, error) {
	ref, err := l.own(ctx, ref)
	if err != nil {
		return Graph{}, err
	}
	g, err := l.under.Graph(ctx, ref, path)
	veil(l.p, &g)
	return g, err
}

// Tree is part of Service. Of a tree a principal with an owner sees the runs of that owner.
func (l *limited) Tree(ctx context.Context, ref string) (Tree, error) {
	ref, err := l.own(ctx, ref)
	if err != nil {
		return Tree{}, err
	}
	t, err := l.under.Tree(ctx, ref)
	if err == nil && l.p.Owner != "" {
		err = l.ownBranches(ctx, &t)
	}
	if err != nil {
		return Tree{}, err
	}
	for i := range t.Runs {
		l.hide(&t.Runs[i].Run)
	}
	return t, err
}

func hasOwner(r *Run) bool { _, tagged := r.Tags[ownerTag]; return tagged }

// ownBranches leaves in a tree the runs of the owner: those without the tag if that is the owner of their root.
func (l *limited) ownBranches(ctx context.Context, t *Tree) error {
	ofRoots := map[string]bool{}
	for i := range t.Runs {
		r := &t.Runs[i].Run
		if _, asked := ofRoots[r.Root]; asked || hasOwner(r) {
			continue
		}
		mine, err := l.mine(ctx, r)
		if err != nil && !errors.Is(err, workflow.ErrRunNotFound) && !isNotFound(err) {
			return err
		}
		ofRoots[r.Root] = err == nil && mine
	}
	t.Runs = slices.DeleteFunc(t.Runs, func(b Branch) bool {
		owner, tagged := b.Tags[ownerTag]
		return tagged && owner != l.p.Owner || !tagged && !ofRoots[b.Root]
	})
	return nil
}

// Follow is part of Service.
func (l *limited) Follow(ctx context.Context, ref string, f EventFilter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ref, err := l.own(ctx, ref)
		if err != nil {
			yield(Event{}, err)
			return
		}
		for e, err := range l.under.Follow(ctx, ref, f) {
			l.hideEvent(&e)
			if !yield(e, err) {
				return
			}
		}
	}
}

// Act is part of Service.
func (l *limited) Act(ctx context.Context, ref string, a Action) (Acted, error) {
	if err := l.p.Need(roleFor(a.Verb), "to "+a.Verb+" runs"); err != nil {
		return Acted{}, err
	}
	ref, err := l.own(ctx, ref)
	if err != nil {
		return Acted{}, err
	}
	return l.under.Act(ctx, ref, a)
}

// Start is part of Service.
func (l *limited) Start(ctx context.Context, s Start) (Started, error) {
	if err := l.p.Need(RoleOperator, "to start runs"); err != nil {
		return Started{}, err
	}
	if s.Workflow == BulkRuns.Name() { // whose input says with which rights it acts
		return Started{}, &NotAllowedError{What: "bulk actions are not started as runs", Fix: "POST bulk, or use flowctl with a filter"}
	}
	if s.Key != "" && !l.local {
		s.Key = l.p.Name + "\x00" + s.Key // nobody is given the run of somebody else
	}
	if l.p.Owner == "" {
		return l.under.Start(ctx, s)
	}
	if other, ok := s.Tags[ownerTag]; ok && other != l.p.Owner {
		return Started{}, &NotAllowedError{What: "the start names another owner", Fix: "leave the tag owner out: the token decides it"}
	}
	if s.Policy != "" && s.Policy != "use" && s.Policy != "fail" {
		return Started{}, &NotAllowedError{What: "the policy " + s.Policy + " could end the run of another owner", Fix: "use the policy use or fail"}
	}
	if s.Tags = maps.Clone(s.Tags); s.Tags == nil {
		s.Tags = map[string]string{}
	}
	s.Tags[ownerTag] = l.p.Owner
	got, err := l.under.Start(ctx, s)
	if err == nil && !got.Created {
		_, err = l.find(ctx, got.Run)
	}
	if p := ProblemOf(err); err != nil && (p.Code == CodeRefused || p.Code == CodeNotFound) { // it could name the run of another owner
		err = NewProblem(CodeRefused, "start "+s.Workflow+": the workflow id was used before", "use another id")
	}
	if err != nil {
		return Started{}, err
	}
	return got, nil
}

// Wait is part of Service.
func (l *limited) Wait(ctx context.Context, ref string, most time.Duration) (Run, error) {
	ref, err := l.own(ctx, ref)
	if err != nil {
		return Run{}, err
	}
	r, err := l.under.Wait(ctx, ref, most)
	l.show(&r)
	return r, err
}

// Send is part of Service.
func (l *limited) Send(ctx context.Context, ref, topic string, m Message) (Sent, error) {
	if err := l.p.Need(RoleOperator, "to send messages"); err != nil {
		return Sent{}, err
	}
	ref, err := l.own(ctx, ref)
	if err != nil {
		return Sent{}, err
	}
	return l.under.Send(ctx, ref, topic, m)
}

// Ask is part of Service.
func (l *limited) Ask(ctx context.Context, ref, name string, m Message) (Answer, error) {
	if err := l.p.Need(RoleOperator, "to ask runs"); err != nil {
		return Answer{}, err
	}
	ref, err := l.own(ctx, ref)
	if err != nil {
		return Answer{}, err
	}
	return l.under.Ask(ctx, ref, name, m)
}

// Value is part of Service.
func (l *limited) Value(ctx context.Context, ref, name string) (Value, error) {
	if err := l.p.Need(RolePayloads, "to read values"); err != nil {
		return Value{}, err
	}
	ref, err := l.own(ctx, ref)
	if err != nil {
		return Value{}, err
	}
	return l.under.Value(ctx, ref, name)
}

// Streams is part of Service. It says names and numbers, and nothing of what the streams carry.
func (l *limited) Streams(ctx context.Context, ref string, f StreamFilter) (StreamList, error) {
	ref, err := l.own(ctx, ref)
	if err != nil {
		return StreamList{}, err
	}
	return l.under.Streams(ctx, ref, f)
}

// Stream is part of Service.
func (l *limited) Stream(ctx context.Context, ref, name string, from uint64, limit int) (ChunkPage, error) {
	ref, err := l.ownStream(ctx, ref)
	if err != nil {
		return ChunkPage{}, err
	}
	return l.under.Stream(ctx, ref, name, from, limit)
}

// FollowStream is part of Service.
func (l *limited) FollowStream(ctx context.Context, ref, name string, from uint64) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		ref, err := l.ownStream(ctx, ref)
		if err != nil {
			yield(Chunk{}, err)
			return
		}
		l.under.FollowStream(ctx, ref, name, from)(yield)
	}
}

// ownStream is own for what the streams of a run carry.
func (l *limited) ownStream(ctx context.Context, ref string) (string, error) {
	if err := l.p.Need(RolePayloads, "to read streams"); err != nil {
		return "", err
	}
	return l.own(ctx, ref)
}

// show leaves in a run what the principal may see and do.
func (l *limited) show(r *Run) {
	l.hide(r)
	if !l.p.Role.Allows(RoleOperator) {
		r.Actions = nil
	} else if !l.p.Role.Allows(RoleAdmin) {
		r.Actions = slices.DeleteFunc(r.Actions, func(verb string) bool { return verb == verbDelete })
	}
}

// hide takes out of a run what the principal may not see.
func (l *limited) hide(r *Run) {
	veil(l.p, r)
	if !l.p.Role.Allows(RolePayloads) {
		r.Input, r.Result, r.Failure = nil, nil, withoutData(r.Failure)
		r.Blocked = ends(r.Blocked)
		if r.Mismatch != nil {
			bare := *r.Mismatch
			bare.Diff = ""
			r.Mismatch = &bare
		}
	}
}

// ends returns the first and the last line of a text: what says why a run is blocked has the contents that differ between them.
func ends(text string) string {
	first, rest, more := strings.Cut(text, "\n")
	if !more {
		return text
	}
	return first + "\n" + rest[strings.LastIndexByte(rest, '\n')+1:]
}

func (l *limited) hideEvent(e *Event) {
	veil(l.p, e)
	if !l.p.Role.Allows(RolePayloads) {
		e.Payload, e.Failure = nil, withoutData(e.Failure)
	}
}

// withoutData returns an error without the values in it. Its text stays: it says why a run has failed.
func withoutData(f *Failure) *Failure {
	if f == nil {
		return nil
	}
	bare := *f
	bare.Data, bare.Causes = nil, nil
	for _, cause := range f.Causes {
		bare.Causes = append(bare.Causes, withoutData(cause))
	}
	return &bare
}
