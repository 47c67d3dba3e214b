package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/flowgen/flowgen/internal/jsonschema"
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
}

// CatalogPage is a part of the catalogue, by name.
type CatalogPage struct {
	Workflows []CatalogWorkflow `json:"workflows"`
	Next      string            `json:"next,omitempty"` // After of the next page; empty: there is none
}

// Catalog is part of Service.
func (d *Direct) Catalog(ctx context.Context, f CatalogFilter) (CatalogPage, error) {
	if err := checkPage("workflows", f.Limit, 0, nil); err != nil {
		return CatalogPage{}, err
	}
	limit := cmp.Or(f.Limit, 100)
	found, err := d.client.Catalog(ctx, workflow.CatalogQuery{Workflow: f.Workflow, After: f.After, Limit: limit + 1})
	if err != nil {
		return CatalogPage{}, err
	}
	page := CatalogPage{Workflows: []CatalogWorkflow{}}
	if len(found) > limit {
		found = found[:limit]
		page.Next = found[limit-1].Workflow
	}
	for _, e := range found {
		w := CatalogWorkflow{Workflow: e.Workflow}
		for _, v := range e.Versions {
			w.Versions = append(w.Versions, CatalogVersion{Build: v.Build, At: utc(v.At), Queue: v.Queue, Input: v.Input, Output: v.Output})
		}
		page.Workflows = append(page.Workflows, w)
	}
	return page, nil
}

// Fault is a place in an input that does not fit.
type Fault struct {
	Pointer string `json:"pointer"` // a JSON pointer (RFC 6901); empty: the input as a whole
	Problem string `json:"problem"`
}

// fits returns a problem for an input that fits what no build of the catalogue says of the workflow: builds that are deployed beside each
// other may say different things, and any of them may get the run. What nothing is known of is not checked: the
// code of the run sees then whether it fits.
func (d *Direct) fits(ctx context.Context, name string, input Payload) error {
	found, err := d.client.Catalog(ctx, workflow.CatalogQuery{Workflow: name, Limit: 1})
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
