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
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// CatalogFilter selects workflows. The zero value selects the first 100 by name.
type CatalogFilter struct {
	Workflow string `json:"workflow,omitempty"` // stored name; empty selects all workflows
	After    string `json:"after,omitempty"`    // selects names after this one; set it to CatalogPage.Next for the next page
	Limit    int    `json:"limit,omitempty"`    // entries per page; 0 means 100, the maximum is 1,000
}

// CatalogWorkflow describes a workflow as workers registered it when they started.
type CatalogWorkflow struct {
	Workflow string           `json:"workflow"` // stored name
	Versions []CatalogVersion `json:"versions"` // the last four distinct versions, the newest first
}

// CatalogVersion describes a workflow as it is defined in one build.
type CatalogVersion struct {
	Build string    `json:"build"` // the newest build that defines this version
	At    time.Time `json:"at"`    // time at which a worker first registered the version
	Queue string    `json:"queue"` // queue in the directive of the workflow
	// Input and Output are JSON Schemas (draft 2020-12) of the stored form of the input, which
	// [Start] takes, and of the result. The type null means that the workflow has no input or no
	// result. An absent schema means that the type is unknown.
	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Limits []string        `json:"limits,omitempty"` // names of the limits that runs of the workflow use; empty if the build does not report them
	Graph  *CatalogGraph   `json:"graph,omitempty"`  // graph of a struct with //flow:dag; nil if the workflow has no such graph or the build does not report it
}

// CatalogGraph contains the nodes of a graph. If there are too many nodes, it contains only their
// number.
type CatalogGraph = store.CatalogGraph

// CatalogNode is a node of a graph with its dependencies.
type CatalogNode = store.CatalogNode

// CatalogPage is a page of the catalog, sorted by name.
type CatalogPage struct {
	Workflows []CatalogWorkflow `json:"workflows"`
	Next      string            `json:"next,omitempty"` // value of CatalogFilter.After for the next page; empty on the last page
}

// Catalog returns a page of the workflows that workers have registered. The catalog contains no
// data of runs, so every principal that may start runs may read it.
func (s *Service) Catalog(ctx context.Context, f CatalogFilter) (CatalogPage, error) {
	if err := s.who.Need(RoleViewer, "to see the catalogue"); err != nil {
		return CatalogPage{}, err
	}
	if err := checkPage("workflows", f.Limit, 0, nil); err != nil {
		return CatalogPage{}, err
	}
	limit := cmp.Or(f.Limit, 100)
	var found []ops.CatalogEntry
	for e, err := range s.described(ctx, ops.CatalogQuery{Workflow: f.Workflow, After: f.After, Limit: limit + 1}) {
		if err != nil {
			return CatalogPage{}, err
		}
		if !event.Internal(e.Workflow) {
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

// described returns an iterator over the catalog entries that a query selects. It reads the entries
// page by page.
func (s *Service) described(ctx context.Context, q ops.CatalogQuery) iter.Seq2[ops.CatalogEntry, error] {
	return func(yield func(ops.CatalogEntry, error) bool) {
		for {
			page, err := s.ops.Catalog(ctx, q)
			if err != nil {
				yield(ops.CatalogEntry{}, err)
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

// usedLimits caches the limits that the runs of each workflow use. If several requests need fresh
// data, one of them reads the catalog and the others wait for the result. Requests for which the
// cached data suffice do not wait.
type usedLimits struct {
	mu      sync.Mutex // never held during a read of the store
	read    time.Time
	by      map[string][]string // replaced as a whole, never modified
	reading *usedReading        // the read in progress, or nil
}

// usedReading is a read of the catalog, shared by the requests that wait for it.
type usedReading struct {
	over chan struct{} // closed at the end of the read
	err  error         // error of the read; set before over is closed
}

// Maximum age of the cached limits. The catalog contains the schemas of all workflows, so reading
// it is expensive. It changes only if a worker of another build starts, but pages are drawn every
// second.
const (
	usedFor    = 10 * time.Second
	usedAtMost = time.Second // maximum age if a requested workflow is not in the cache
)

// limitsOf returns the limits that the runs of workflows use. A request that reads the catalog does
// so within its own deadline. If its deadline passes, one of the waiting requests reads the catalog
// instead.
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

// known returns the cached data if they are recent enough. Otherwise it returns a read, which is in
// progress unless mine is true. If mine is true, the caller must execute the read.
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

// fill executes a read, stores its result, and wakes the waiting requests.
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

// readLimits returns the limits that the runs of each workflow use, from the catalog. It returns an
// empty map if the store has no catalog.
func (s *Service) readLimits(ctx context.Context) (map[string][]string, error) {
	by := map[string][]string{}
	for e, err := range s.described(ctx, ops.CatalogQuery{Limit: maxLimit}) {
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

// Fault is a position in an input at which the input does not match the schema.
type Fault struct {
	Pointer string `json:"pointer"` // JSON pointer (RFC 6901); empty for the input as a whole
	Problem string `json:"problem"`
}

// fits returns a problem if the input matches no version of the workflow in the catalog. Builds
// that are deployed side by side may define different versions, and a worker of any of these builds
// may execute the run. Without a schema in the catalog, fits accepts any input, and the code of the
// run rejects an input that does not match.
func (s *Service) fits(ctx context.Context, name string, input Payload) error {
	found, err := s.ops.Catalog(ctx, ops.CatalogQuery{Workflow: name, Limit: 1})
	if errors.Is(err, workflow.ErrNotSupported) || err == nil && len(found) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if len(input) == 0 {
		input = Payload("null") // the schema of a workflow without input has the type null
	}
	var faults []Fault
	for i, v := range found[0].Versions {
		wrong := jsonschema.Check(v.Input, input)
		if len(wrong) == 0 {
			return nil
		}
		for _, f := range wrong {
			if i == 0 { // the problem describes the mismatch with the newest version
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
