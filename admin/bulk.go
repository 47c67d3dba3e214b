package admin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// PreviewLasts is the time for which the token of a preview is valid.
const PreviewLasts = time.Hour

// Limits of a bulk action and their defaults.
const (
	DefaultBulkRate     = 100 // default of NewBulk.Rate, in runs per second
	DefaultBulkFailures = 100
	maxBulkRate         = 1_000_000
	maxBulkFailures     = 20 // maximum number of entries in Bulk.Failures
	bulkSamples         = 10
	bulkGroups          = 20
)

// BulkRequest describes an action and the runs to apply it to.
type BulkRequest struct {
	// Filter selects the runs. Its Cursor, Limit, Budget and Oldest must be zero.
	Filter Filter `json:"filter,omitzero"`
	// All permits an empty filter, which selects all runs.
	All    bool   `json:"all,omitempty"`
	Action Action `json:"action,omitzero"`
}

// BulkPreview describes the effect that a bulk action would have.
type BulkPreview struct {
	Token    string      `json:"token"` // Token is passed to [NewBulk]. It contains the filter, the action, the time and the number of runs.
	At       time.Time   `json:"at"`
	Count    int         `json:"count"`              // number of matching runs
	Refused  int         `json:"refused"`            // number of matching runs that would refuse the action
	Statuses []BulkCount `json:"statuses"`           // matching runs by status, the largest count first
	Groups   []BulkCount `json:"groups,omitempty"`   // the 20 largest failure groups of the matching runs
	Refusals []BulkCount `json:"refusals,omitempty"` // refusing runs by status
	Samples  []Run       `json:"samples"`            // the ten oldest matching runs
}

// BulkCount is the number of runs with the same status or failure group.
type BulkCount struct {
	Name string `json:"name"`
	Runs int    `json:"runs"`
}

// NewBulk describes a bulk action to start. It contains either the token of a preview, or an
// action, a filter and the expected number of runs.
type NewBulk struct {
	Token string `json:"token,omitempty"`
	BulkRequest

	// Expect is the number of runs that should match the filter. It is required if there is no
	// token.
	Expect *int `json:"expect,omitempty"`
	// Rate is the maximum number of runs per second; 0 means 100.
	Rate int `json:"rate,omitempty"`
	// MaxFailures is the number of runs that may fail before the action ends as failed; 0 means
	// 100.
	MaxFailures int `json:"maxFailures,omitempty"`
	// Key is an idempotency key: repeated calls with the same key count as one request.
	Key string `json:"-"`
	// By is the principal whose rights are checked for each run. Nil means unrestricted rights.
	// [Service.As] sets it.
	By *Principal `json:"-"`
}

// Bulk is the state of a bulk action.
type Bulk struct {
	ID       string        `json:"id"`
	Status   string        `json:"status"` // one of [BulkStatuses]
	Action   Action        `json:"action"`
	Filter   Filter        `json:"filter"`
	By       string        `json:"by,omitempty"`
	Owner    string        `json:"owner,omitempty"`
	Total    int           `json:"total"` // number of runs that matched at the start
	Done     int           `json:"done"`
	Failed   int           `json:"failed"`
	Refused  int           `json:"refused"` // number of runs whose state did not allow the action
	Skipped  int           `json:"skipped"` // number of runs that did not match when the action reached them
	Left     int           `json:"remaining"`
	Rate     int           `json:"rate"`               // maximum number of runs per second
	Speed    float64       `json:"perSecond"`          // average number of runs per second, rounded to a tenth, until the end of the action or the present
	Failures []BulkFailure `json:"failures,omitempty"` // the first 20 runs that failed or refused the action
	Failure  string        `json:"failure,omitempty"`  // reason why the action failed
	Run      string        `json:"run"`                // ID of the run that executes the action
	Unserved bool          `json:"unserved,omitempty"` // whether no live worker serves the run
	Created  time.Time     `json:"createdAt"`
	Ended    time.Time     `json:"endedAt,omitzero"`
}

// BulkFailure describes why the action was not applied to a run.
type BulkFailure struct {
	Run     string `json:"run"`
	Outcome string `json:"outcome"` // one of the outcomes failed and refused
	Detail  string `json:"detail"`
}

// The outcomes of a BulkFailure.
const (
	bulkFailed  = "failed"
	bulkRefused = "refused"
)

// The statuses of bulk actions.
const (
	BulkPending   = "pending" // no worker has claimed the run of the action
	BulkRunning   = "running"
	BulkCompleted = "completed"
	BulkStopped   = "stopped"
	BulkFailed    = "failed"
)

// BulkStatuses returns the statuses of bulk actions.
func BulkStatuses() []string {
	return []string{BulkPending, BulkRunning, BulkCompleted, BulkStopped, BulkFailed}
}

// BulkFilter selects a page of bulk actions.
type BulkFilter struct {
	Owner  string `json:"-"`                // selects the bulk actions of one owner; set by [Service.As]
	Cursor string `json:"cursor,omitempty"` // cursor of the previous page
	Limit  int    `json:"limit,omitempty"`  // entries per page; 0 means 20, the maximum is 1,000
}

// BulkPage is a page of bulk actions.
type BulkPage struct {
	Bulks  []Bulk `json:"bulks"`
	Cursor string `json:"cursor,omitempty"` // cursor of the next page; empty on the last page
}

// errNoFilter is returned for a request that has no filter and does not set All.
var errNoFilter = &InputError{What: "a bulk action without a filter would act on all runs", Fix: "give a filter, or all"}

// isZero reports whether a filter selects all runs.
func (f Filter) isZero() bool {
	f.Children, f.System = false, false // Children and System only add runs
	if len(f.Statuses) == 0 {
		f.Statuses = nil
	}
	if len(f.Tags) == 0 {
		f.Tags = nil
	}
	return reflect.ValueOf(f).IsZero()
}

// check validates a request and returns its verb.
func (r *BulkRequest) check() (*verb, error) {
	v, err := verbOf(r.Action.Verb) // the reason is not checked here, because the run of the bulk action records it
	f := &r.Filter
	switch {
	case err != nil:
		return nil, err
	case !r.All && f.isZero():
		return nil, errNoFilter
	case f.Cursor != "" || f.Limit != 0 || f.Budget != 0 || f.Oldest:
		return nil, &InputError{What: "the filter has a cursor, a limit, a budget or an order", Fix: "remove it: a bulk action acts on all runs that match"}
	case v.name == "fork" && r.Action.Step == "":
		return nil, errNoStep
	}
	if err := checkReason(v.name, r.Action.Reason, true); err != nil {
		return nil, err
	}
	_, err = f.filter()
	return v, err
}

// order converts a request into the order of a bulk action. It returns an error if the current runs
// do not match the request.
func (s *Service) order(ctx context.Context, b NewBulk) (bulkOrder, error) {
	var o bulkOrder
	p, err := b.preview()
	if err == nil && p.At.IsZero() {
		p.At, err = s.existing(ctx, &p.Filter)
	}
	if err != nil {
		return o, err
	}
	r := BulkRequest{Filter: p.Filter, All: p.All, Action: p.Action}
	if _, err := r.check(); err != nil {
		return o, err
	}
	switch now := s.client.Store().Clock().Now(); {
	case b.Rate < 0 || b.Rate > maxBulkRate:
		return o, &InputError{What: fmt.Sprintf("a rate of %d runs per second", b.Rate), Fix: fmt.Sprintf("give 1 to %d", maxBulkRate)}
	case b.MaxFailures < 0:
		return o, &InputError{What: fmt.Sprintf("%d failures at most", b.MaxFailures), Fix: "give 1 or more"}
	case now.Sub(p.At) > PreviewLasts:
		return o, NewProblem(CodePrecondition, fmt.Sprintf("the preview is of %s", p.At.Format(time.RFC3339)), "request a new one: it is valid for "+PreviewLasts.String())
	}
	count := 0
	if err := s.survey(ctx, p.Filter, func(*workflow.RunInfo) { count++ }); err != nil {
		return o, err
	}
	if off(count, p.Count) {
		return o, NewProblem(CodePrecondition, fmt.Sprintf("%d runs match, where %d were expected", count, p.Count), "request a new preview")
	}
	o = bulkOrder{Filter: p.Filter, Action: p.Action, Total: count, Rate: cmp.Or(b.Rate, DefaultBulkRate), MaxFailures: cmp.Or(b.MaxFailures, DefaultBulkFailures), By: Principal{Role: RoleAdmin}}
	if b.By != nil {
		o.By = *b.By
	}
	return o, nil
}

// preview decodes the preview from the token. Without a token it returns a preview that is made
// from the request and whose time is zero.
func (b *NewBulk) preview() (*preview, error) {
	switch {
	case b.Token != "" && (b.Expect != nil || b.All || !b.Filter.isZero() || b.Action != Action{}):
		return nil, &InputError{What: "a token is given together with values that it fixes", Fix: "give the token alone, with rate and maxFailures"}
	case b.Token != "":
		return readPreview(b.Token)
	case b.Expect == nil || *b.Expect < 0:
		return nil, &InputError{What: "the expected number of runs is missing", Fix: "give the token of a preview, or expect"}
	}
	p := &preview{Filter: b.Filter, All: b.All, Action: b.Action, Count: *b.Expect}
	if _, err := (&BulkRequest{Filter: b.Filter, All: b.All, Action: b.Action}).check(); err != nil {
		return nil, err
	}
	p.Action.Key = ""
	return p, nil
}

// bulkID is the prefix of the IDs of bulk actions, which are workflow IDs.
const bulkID = event.BulkRunID

// StartBulk starts a bulk action. When it returns nil, the action is durable. It returns a problem
// with the code precondition if the preview is older than [PreviewLasts], or if the number of runs
// has changed by more than a tenth. A preview grants no rights: StartBulk checks its filter and its
// action like those of a request without a token.
func (s *Service) StartBulk(ctx context.Context, b NewBulk) (Bulk, error) {
	f, a := b.Filter, b.Action
	if p, err := readPreview(b.Token); err == nil {
		f, a = p.Filter, p.Action
	}
	text, _ := json.Marshal(f) // the encoding cannot fail, because the filter contains only text and times
	e := s.entry(JournalEntry{Action: "bulk", Detail: a.Verb + " " + string(text), Reason: a.Reason, Key: b.Key})
	return recorded(ctx, s, &e, func(ctx context.Context) (Bulk, error) { return s.startBulk(ctx, b) },
		func(got Bulk, e *JournalEntry) { e.Target, e.Run, e.New = got.ID, got.Run, got.Run })
}

// startBulk is like [Service.StartBulk], but does not write the journal.
func (s *Service) startBulk(ctx context.Context, b NewBulk) (Bulk, error) {
	if b.Token == "" {
		if s.who.Owner != "" && !b.All && b.Filter.isZero() {
			return Bulk{}, errNoFilter
		}
		var err error
		if b.Filter, err = s.mayBulk(b.Filter, b.Action); err != nil {
			return Bulk{}, err
		}
	} else {
		t, err := readPreview(b.Token)
		if err != nil {
			return Bulk{}, err
		}
		f, err := s.mayBulk(t.Filter, t.Action)
		if err != nil {
			return Bulk{}, err
		}
		if f.Tags[ownerTag] != t.Filter.Tags[ownerTag] {
			return Bulk{}, &NotAllowedError{What: "the preview covers the runs of all owners", Fix: "request a preview with this token"}
		}
	}
	if b.Key != "" && !s.local {
		b.Key = s.who.Name + "\x00" + b.Key
	}
	if s.behalf {
		b.By = &s.who
	}
	return s.createBulk(ctx, b)
}

// createBulk is like startBulk, but does not check the rights of the principal.
func (s *Service) createBulk(ctx context.Context, b NewBulk) (Bulk, error) {
	id := bulkID + strings.ToLower(rand.Text()[:16])
	if b.Key != "" {
		sum := sha256.Sum256([]byte(b.Key))
		id = bulkID + hex.EncodeToString(sum[:16])
		if got, err := s.bulk(ctx, id); !errors.Is(err, workflow.ErrRunNotFound) {
			return s.sameBulk(got, b, err)
		}
	}
	o, err := s.order(ctx, b)
	if err != nil {
		return Bulk{}, err
	}
	o.ID, o.Created = id, s.client.Store().Clock().Now().UTC()
	tags := map[string]string{}
	if o.By.Owner != "" {
		tags[ownerTag] = o.By.Owner
	}
	policy := workflow.IDPolicy{Finished: workflow.RejectFinished} // concurrent requests with the same key create only one action
	_, err = BulkRuns.Start(ctx, s.client, bulkWork{Order: o}, workflow.WithID(id), workflow.WithIDPolicy(policy), workflow.WithTags(tags))
	if err != nil && !errors.As(err, new(*workflow.FinishedRunError)) {
		return Bulk{}, fmt.Errorf("start bulk action: %w", err)
	}
	return s.bulk(ctx, id)
}

// sameBulk handles a request whose key was used before. It returns the existing action if the
// requests are equal.
func (s *Service) sameBulk(got Bulk, b NewBulk, err error) (Bulk, error) {
	if err != nil {
		return Bulk{}, err
	}
	p, err := b.preview()
	if err != nil {
		return Bulk{}, err
	}
	p.Filter.Until = got.Filter.Until // Until of a request without a token differs in each repetition
	if p.Action != got.Action || !sameJSON(p.Filter, got.Filter) {
		p := NewProblem(CodeInput, "start bulk action: its idempotency key was used before, for other runs or another action", "use a new key for each request, and the same one to repeat a request")
		p.Status = http.StatusUnprocessableEntity
		return Bulk{}, p
	}
	return got, nil
}

func sameJSON(a, b any) bool {
	one, err := json.Marshal(a)
	two, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(one, two)
}

// findBulk returns the newest run of a bulk action and its state.
func (s *Service) findBulk(ctx context.Context, id string) (*workflow.Handle, workflow.RunInfo, error) {
	if !strings.HasPrefix(id, bulkID) {
		return nil, workflow.RunInfo{}, &InputError{What: fmt.Sprintf("%q is not the id of a bulk action", id), Fix: "take it from the list of bulk actions"}
	}
	info, err := s.client.RunByID(id).Info(ctx)
	if err == nil && info.Workflow != BulkRuns.Name() {
		err = noBulk(id)
	}
	if err != nil {
		return nil, info, fmt.Errorf("find bulk action: %w", err)
	}
	return s.client.Run(info.ID), info, nil
}

// Bulk returns the state of a bulk action.
func (s *Service) Bulk(ctx context.Context, id string) (Bulk, error) {
	if err := s.who.Need(RoleViewer, "to see bulk actions"); err != nil {
		return Bulk{}, err
	}
	b, err := s.bulk(ctx, id)
	veil(s.who, &b)
	if s.who.Owner != "" && (err == nil && b.Owner != s.who.Owner || errors.Is(err, workflow.ErrRunNotFound)) { // the error does not reveal whether the action exists
		return Bulk{}, noBulk(id)
	}
	return b, err
}

// bulk is like [Service.Bulk], but does not check the rights of the principal.
func (s *Service) bulk(ctx context.Context, id string) (Bulk, error) {
	h, info, err := s.findBulk(ctx, id)
	if err != nil {
		return Bulk{}, err
	}
	return s.bulkOf(ctx, h, info)
}

func (s *Service) bulkOf(ctx context.Context, h *workflow.Handle, info workflow.RunInfo) (Bulk, error) {
	first, err := s.read(ctx, h, info, 1, 1)
	if err != nil {
		return Bulk{}, err
	}
	var in struct{ W bulkWork }
	if len(first) == 0 || json.Unmarshal(first[0].Payload, &in) != nil { //nolint:musttag // logs have it under the names of the fields
		return Bulk{}, fmt.Errorf("read bulk action %s: its input cannot be read", info.WorkflowID)
	}
	o, state := in.W.Order, in.W.State
	if newer, ok, err := bulkProgress.Get(ctx, h); err != nil {
		return Bulk{}, fmt.Errorf("read bulk action %s: %w", o.ID, err)
	} else if ok {
		state = newer
	}
	b := Bulk{
		ID: o.ID, Action: o.Action, Filter: o.Filter, By: o.By.Name, Owner: o.By.Owner, Total: o.Total, Done: state.Done, Failed: state.Failed, Refused: state.Refused, Skipped: state.Skipped,
		Left: max(0, o.Total-state.seen()), Rate: o.Rate, Failures: state.Failures, Run: string(info.ID), Unserved: info.Unserved,
		Created: o.Created.UTC(), Ended: utc(info.EndedAt), Status: BulkRunning,
	}
	until := state.At
	if info.EndedAt.IsZero() {
		until = s.client.Store().Clock().Now()
	}
	b.Speed = state.speed(until, o.Rate)
	switch {
	case info.EndedAt.IsZero() && state.At.IsZero() && info.Status == workflow.StatusPending:
		b.Status = BulkPending
	case info.EndedAt.IsZero(): // the action is running
	case state.Stopped:
		b.Status = BulkStopped
	case info.Status == workflow.StatusCompleted:
		b.Status = BulkCompleted
	default:
		b.Status = BulkFailed
		r, err := s.run(ctx, string(info.ID))
		if err != nil {
			return Bulk{}, err
		}
		if r.Failure != nil {
			b.Failure = r.Failure.Message
		}
	}
	return b, nil
}

// speed returns the average number of runs per second from the start of the action until the given
// time. The duration is at least the time that the rate allots to the runs. The first runs of a
// part are processed immediately, so the elapsed time alone would overstate the speed.
func (s *bulkState) speed(until time.Time, rate int) float64 {
	acted := float64(s.Done + s.Failed)
	if acted == 0 || rate <= 0 {
		return 0
	}
	took := max(until.Sub(s.Began).Seconds(), acted/float64(rate))
	return math.Round(10*acted/took) / 10
}

// bulkPageSize is the default of BulkFilter.Limit. It is small because the state of each action
// needs several reads.
const bulkPageSize = 20

// Bulks returns a page of bulk actions, the newest first.
func (s *Service) Bulks(ctx context.Context, f BulkFilter) (BulkPage, error) {
	if err := s.who.Need(RoleViewer, "to see bulk actions"); err != nil {
		return BulkPage{}, err
	}
	if s.who.Owner == "" {
		page, err := s.bulks(ctx, f)
		veil(s.who, &page)
		return page, err
	}
	f.Owner = s.who.Owner
	page, err := s.bulks(ctx, f)
	mine := []Bulk{} // the owner is checked here because some stores do not filter by owner
	for _, b := range page.Bulks {
		if b.Owner == s.who.Owner {
			mine = append(mine, b)
		}
	}
	page.Bulks = mine
	veil(s.who, &page)
	return page, err
}

// bulks is like [Service.Bulks], but does not check the rights of the principal.
func (s *Service) bulks(ctx context.Context, f BulkFilter) (BulkPage, error) {
	runs := Filter{Workflow: BulkRuns.Name(), Cursor: f.Cursor, Limit: cmp.Or(f.Limit, bulkPageSize)}
	for _, s := range Statuses() {
		if s != string(workflow.StatusContinued) {
			runs.Statuses = append(runs.Statuses, s)
		}
	}
	if f.Owner != "" {
		runs.Tags = map[string]string{ownerTag: f.Owner}
	}
	asked, err := runs.filter()
	if err != nil {
		return BulkPage{}, err
	}
	page, err := s.client.Page(ctx, asked, runs.Limit)
	if err != nil {
		return BulkPage{}, err
	}
	got := BulkPage{Bulks: []Bulk{}, Cursor: page.Cursor}
	for _, info := range page.Runs {
		b, err := s.bulkOf(ctx, s.client.Run(info.ID), info)
		if errors.Is(err, workflow.ErrRunNotFound) { // the run was purged after it was listed
			continue
		}
		if err != nil {
			return BulkPage{}, err
		}
		got.Bulks = append(got.Bulks, b)
	}
	return got, nil
}

// StopBulk stops a bulk action. The action still completes the part that is in progress. StopBulk
// does not wait for that.
func (s *Service) StopBulk(ctx context.Context, id string, why Because) (Bulk, error) {
	e := s.entry(JournalEntry{Action: "stop", Target: id, Reason: why.Reason})
	return recorded(ctx, s, &e, func(ctx context.Context) (Bulk, error) {
		return s.stopBulk(ctx, id, Because{left(&e, why.Reason, false)})
	},
		func(got Bulk, e *JournalEntry) { e.Run = got.Run })
}

// stopBulk is like [Service.StopBulk], but does not write the journal.
func (s *Service) stopBulk(ctx context.Context, id string, why Because) (Bulk, error) {
	if err := s.who.Need(RoleOperator, "to stop bulk actions"); err != nil {
		return Bulk{}, err
	}
	if _, err := s.Bulk(ctx, id); err != nil {
		return Bulk{}, err
	}
	if err := checkReason("the stop of a bulk action", why.Reason, false); err != nil {
		return Bulk{}, err
	}
	_, info, err := s.findBulk(ctx, id)
	if err != nil {
		return Bulk{}, err
	}
	if err := bulkStop.Send(ctx, BulkRuns.Get(s.client, info.ID), "", workflow.IdempotencyKey("stop")); err != nil {
		return Bulk{}, fmt.Errorf("stop bulk action %s: %w", id, err)
	}
	return s.bulk(ctx, id)
}

// mayBulk restricts the filter to the runs of the principal. It returns an error if the principal
// may not apply the action to the selected runs.
func (s *Service) mayBulk(f Filter, a Action) (Filter, error) {
	if err := s.who.Need(roleFor(a.Verb), "to "+a.Verb+" runs"); err != nil {
		return f, err
	}
	return s.owned(f)
}

// remakes reports whether the action creates a new run from the input of the run.
func remakes(verb string) bool {
	return verb == "retry" || verb == "resume-new" || verb == "restart" || verb == "fork"
}

// noBulk returns the error for an unknown ID of a bulk action.
func noBulk(id string) error {
	return fmt.Errorf("find bulk action %s: %w", id, workflow.ErrRunNotFound)
}
