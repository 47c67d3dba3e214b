package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/internal/jsonschema"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// CatalogFilter selects workflows. The zero value selects the first 100 by name.
type CatalogFilter struct {
	Workflow string `json:"workflow,omitempty"` // stored name; empty: all
	After    string `json:"after,omitempty"`    // those whose names come after this one: a [CatalogPage] has that of the next page
	Limit    int    `json:"limit,omitempty"`    // of a page; 0: 100, at most 1,000
}

// CatalogWorkflow describes a workflow as workers did when they started.
type CatalogWorkflow struct {
	Workflow string           `json:"workflow"` // stored name
	Versions []CatalogVersion `json:"versions"` // that differ, the newest first; the last four
}

// CatalogVersion describes a workflow as a build does.
type CatalogVersion struct {
	Build string    `json:"build"` // the newest that says this
	At    time.Time `json:"at"`    // when it has said it first
	Queue string    `json:"queue"` // of its directive
	// Input and Output are JSON Schemas, draft 2020-12, of the input as it is stored, which [Start] takes, and of the result. Of type
	// null: there is none. Left out: nothing is known.
	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Limits []string        `json:"limits,omitempty"` // that its runs use, by name; of an earlier release or a build that cannot say it: none
	Graph  *CatalogGraph   `json:"graph,omitempty"`  // of a struct under //flow:dag; left out: it is none, or the build does not say
}

// CatalogGraph has the nodes of a graph, or only their number if there are too many.
type CatalogGraph = store.CatalogGraph

// CatalogNode is a node of a graph, and what it needs.
type CatalogNode = store.CatalogNode

// CatalogPage is a part of the catalogue, by name.
type CatalogPage struct {
	Workflows []CatalogWorkflow `json:"workflows"`
	Next      string            `json:"next,omitempty"` // After of the next page; empty: there is none
}

// Catalog returns a page of what workers have said of their workflows.
// It says nothing of runs: who may start them may see it, whatever their owner.
func (s *Service) Catalog(ctx context.Context, f CatalogFilter) (CatalogPage, error) {
	if err := s.who.Need(RoleViewer, "to see the catalogue"); err != nil {
		return CatalogPage{}, err
	}
	if err := checkPage("workflows", f.Limit, 0, nil); err != nil {
		return CatalogPage{}, err
	}
	limit := cmp.Or(f.Limit, 100)
	var found []workflow.CatalogEntry
	for e, err := range s.described(ctx, workflow.CatalogQuery{Workflow: f.Workflow, After: f.After, Limit: limit + 1}) {
		if err != nil {
			return CatalogPage{}, err
		}
		if _, step := event.StepOfRun(e.Workflow); !step {
			found = append(found, e)
		}
		if len(found) > limit {
			break
		}
	}
	page := CatalogPage{Workflows: []CatalogWorkflow{}}
	if len(found) > limit {
		found = found[:limit]
		page.Next = found[limit-1].Workflow
	}
	for _, e := range found {
		w := CatalogWorkflow{Workflow: e.Workflow}
		for _, v := range e.Versions {
			w.Versions = append(w.Versions, CatalogVersion{Build: v.Build, At: utc(v.At), Queue: v.Queue, Input: v.Input, Output: v.Output, Limits: v.Limits, Graph: v.Graph})
		}
		page.Workflows = append(page.Workflows, w)
	}
	return page, nil
}

// described delivers the entries of the catalogue that a query selects, page by page.
func (s *Service) described(ctx context.Context, q workflow.CatalogQuery) iter.Seq2[workflow.CatalogEntry, error] {
	return func(yield func(workflow.CatalogEntry, error) bool) {
		for {
			page, err := s.client.Catalog(ctx, q)
			if err != nil {
				yield(workflow.CatalogEntry{}, err)
				return
			}
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
			}
			if len(page) < q.Limit {
				return
			}
			q.After = page[len(page)-1].Workflow
		}
	}
}

// usedLimits has the limits that the runs of each workflow use. Many requests ask for it at once: one of them reads for all that wait,
// and those that know enough wait for nobody.
type usedLimits struct {
	mu      sync.Mutex // never held while the store is asked
	read    time.Time
	by      map[string][]string // replaced, never changed
	reading *usedReading        // nil: nobody reads
}

// usedReading is a read of the catalogue by one request, for all that wait.
type usedReading struct {
	over chan struct{} // closed at its end
	err  error         // with which it has failed for all; set before over is closed
}

// How old what is known of limits may be: a catalogue has the schemas of all workflows, changes when a worker of another build
// starts, and pages are drawn each second.
const (
	usedFor    = 10 * time.Second
	usedAtMost = time.Second // for a workflow of which nothing is known
)

// limitsOf returns the limits that the runs of workflows use. A request reads in its own time: if that ends, one that waits reads instead.
func (s *Service) limitsOf(ctx context.Context, queues []Queue) (map[string][]string, error) {
	u := s.used
	for {
		by, r, mine := u.known(queues)
		switch {
		case r == nil:
			return by, nil
		case mine:
			return u.fill(ctx, r, s.readLimits)
		}
		select {
		case <-r.over:
			if r.err != nil {
				return nil, r.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// known returns what is known if that is new enough, or who reads it: mine says that the caller must.
func (u *usedLimits) known(queues []Queue) (by map[string][]string, r *usedReading, mine bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	age := time.Since(u.read)
	old := func(q Queue) bool {
		_, known := u.by[q.Workflow]
		return age >= usedAtMost && (!known || age >= usedFor)
	}
	if !slices.ContainsFunc(queues, old) {
		return u.by, nil, false
	}
	if u.reading != nil {
		return nil, u.reading, false
	}
	u.reading = &usedReading{over: make(chan struct{})}
	return nil, u.reading, true
}

// fill reads what the limits are, and tells all who wait.
func (u *usedLimits) fill(ctx context.Context, r *usedReading, read func(context.Context) (map[string][]string, error)) (by map[string][]string, err error) {
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if by != nil {
			u.by, u.read = by, time.Now()
		} else if ctx.Err() == nil {
			r.err = err
		}
		u.reading = nil
		close(r.over)
	}()
	return read(ctx)
}

// readLimits reads from the catalogue which limits the runs of each workflow use; none if the store keeps no catalogue.
func (s *Service) readLimits(ctx context.Context) (map[string][]string, error) {
	by := map[string][]string{}
	for e, err := range s.described(ctx, workflow.CatalogQuery{Limit: maxLimit}) {
		if errors.Is(err, workflow.ErrNotSupported) {
			break
		}
		if err != nil {
			return nil, err
		}
		by[e.Workflow] = e.Versions[0].Limits
	}
	return by, nil
}

// Fault is a place in an input that does not fit.
type Fault struct {
	Pointer string `json:"pointer"` // a JSON pointer (RFC 6901); empty: the input as a whole
	Problem string `json:"problem"`
}

// fits returns a problem for an input that fits what no build of the catalogue says of the workflow: builds that are deployed beside each
// other may say different things, and any of them may get the run. What nothing is known of is not checked: the
// code of the run sees then whether it fits.
func (s *Service) fits(ctx context.Context, name string, input Payload) error {
	found, err := s.client.Catalog(ctx, workflow.CatalogQuery{Workflow: name, Limit: 1})
	if errors.Is(err, workflow.ErrNotSupported) || err == nil && len(found) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if len(input) == 0 {
		input = Payload("null") // as the schema of a workflow that takes none has it
	}
	var faults []Fault
	for i, v := range found[0].Versions {
		wrong := jsonschema.Check(v.Input, input)
		if len(wrong) == 0 {
			return nil
		}
		for _, f := range wrong {
			if i == 0 { // the fix speaks of the newest one
				faults = append(faults, Fault(f))
			}
		}
	}
	var told []string
	for _, f := range faults {
		told = append(told, strings.TrimSpace(f.Pointer+" "+f.Problem))
	}
	p := NewProblem(CodeInput, fmt.Sprintf("the input of workflow %s does not fit: %s", name, strings.Join(told, "; ")), "see the schema of its input: flowctl catalog "+name+" --json")
	p.Status, p.Faults = http.StatusUnprocessableEntity, faults
	return p
}
