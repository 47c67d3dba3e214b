package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Cataloger is a store that keeps what workers say of their workflows, for whoever has only their names. It is
// told by a worker that starts, never by a run.
type Cataloger interface {
	// Describe keeps what a build says of a workflow, at a time by the store's clock. What is there already is not written again:
	// see [DescribeIn]. The error is an *InvalidError for what CheckCatalog refuses.
	Describe(ctx context.Context, workflow string, v CatalogVersion) error
	// Catalog returns what is known of workflows, by their names. One whose entry cannot be read is left out.
	Catalog(ctx context.Context, q CatalogQuery) ([]CatalogEntry, error)
}

// CatalogVersion describes a workflow as a build does.
type CatalogVersion struct {
	Build  string          `json:"build"`            // the newest that says this
	At     time.Time       `json:"at"`               // when that has said it first; to the millisecond
	Queue  string          `json:"queue"`            // of its directive
	Input  json.RawMessage `json:"input,omitempty"`  // JSON Schema of what is stored as the input; empty: it takes none, or has none
	Output json.RawMessage `json:"output,omitempty"` // of the result
	Limits []string        `json:"limits,omitempty"` // names of those that its runs use, sorted; none: it uses none, or the build does not say
	Graph  *CatalogGraph   `json:"graph,omitempty"`  // nil: it is none that is known before it runs, or the build does not say
}

// Same reports whether two versions say the same, whatever their builds.
func (v *CatalogVersion) Same(o *CatalogVersion) bool {
	return v.Queue == o.Queue && string(v.Input) == string(o.Input) && string(v.Output) == string(o.Output) && slices.Equal(v.Limits, o.Limits) && v.Graph.Same(o.Graph)
}

// CatalogEntry has all that is known of a workflow.
type CatalogEntry struct {
	Workflow string
	Versions []CatalogVersion // that differ, the newest first, at least one; at most MaxCatalogVersions
}

// MaxCatalogVersions is how many versions of a workflow are kept: builds that are deployed beside each other say different things.
const MaxCatalogVersions = 4

// MaxCatalogSchema bounds a schema, in bytes.
const MaxCatalogSchema = 64 << 10

// CatalogQuery selects entries. The zero value selects the first 100.
type CatalogQuery struct {
	Workflow string // empty: all
	After    string // those whose names come after this one, by bytes
	Limit    int    // not positive: 100
}

// CheckCatalog returns an *InvalidError for a name that is none, more limits than a run may use, a schema that is no JSON, or too long, and for
// what [CatalogGraph.Check] refuses.
func CheckCatalog(workflow string, v *CatalogVersion) error {
	for what, name := range map[string]string{"workflow": workflow, "build": v.Build, "queue": v.Queue} {
		if err := CheckName(what, name); err != nil {
			return err
		}
	}
	if workflow == "" {
		return &InvalidError{What: "workflow", Reason: "has no name"}
	}
	if len(v.Limits) > MaxUses {
		return &InvalidError{What: "limits of workflow " + workflow, Value: fmt.Sprint(len(v.Limits)), Reason: fmt.Sprintf("are more than %d", MaxUses)}
	}
	for _, name := range v.Limits {
		if err := (LimitID{Name: name}).Check(); err != nil {
			return err
		}
	}
	for what, schema := range map[string]json.RawMessage{"schema of the input": v.Input, "schema of the result": v.Output} {
		if len(schema) > MaxCatalogSchema {
			return tooLong(what, string(schema), MaxCatalogSchema)
		}
		if len(schema) > 0 && !json.Valid(schema) {
			return &InvalidError{What: what, Value: string(schema), Reason: "is no JSON"}
		}
	}
	return v.Graph.Check()
}

// Pack returns the entry as stores keep it, under the name of the workflow.
func (e *CatalogEntry) Pack() ([]byte, error) { return json.Marshal(e.Versions) }

// UnpackCatalog returns the entry of a workflow, or an error if it is none that was packed.
func UnpackCatalog(workflow string, body []byte) (CatalogEntry, error) {
	e := CatalogEntry{Workflow: workflow}
	err := json.Unmarshal(body, &e.Versions)
	if n := len(e.Versions); err == nil && (n == 0 || n > MaxCatalogVersions) {
		err = fmt.Errorf("it has %d versions", n)
	}
	for i := range e.Versions {
		if err == nil {
			err = CheckCatalog(workflow, &e.Versions[i])
		}
	}
	if err != nil {
		return CatalogEntry{}, fmt.Errorf("read the catalogue of workflow %.60q: %w", workflow, err)
	}
	return e, nil
}

// DescribeIn returns what is kept of a workflow once a build has said something of it; false: it stays as it is. kept is the entry that is
// there; nil: nothing. What cannot be read counts as nothing, for every worker that starts says it again.
//
// Versions are kept by what they say, so that a build which says nothing new costs a name, and old builds that start
// again beside a newer one change nothing. A build that has not said this before makes it the newest: so does one that
// goes back to what an older one has said.
func DescribeIn(kept []byte, workflow string, v CatalogVersion, now time.Time) ([]byte, bool, error) {
	if err := CheckCatalog(workflow, &v); err != nil {
		return nil, false, err
	}
	for _, schema := range []*json.RawMessage{&v.Input, &v.Output} {
		if len(*schema) > 0 {
			*schema, _ = json.Marshal(*schema) // in the form in which it is kept; that it is JSON was checked
		}
	}
	e, err := UnpackCatalog(workflow, kept)
	if err != nil {
		e = CatalogEntry{Workflow: workflow}
	}
	v.At = now.UTC().Truncate(time.Millisecond)
	if i := slices.IndexFunc(e.Versions, func(o CatalogVersion) bool { return o.Same(&v) }); i >= 0 {
		if e.Versions[i].Build == v.Build {
			return kept, false, nil
		}
		e.Versions = slices.Delete(e.Versions, i, i+1)
	}
	e.Versions = slices.Insert(e.Versions, 0, v)
	e.Versions = e.Versions[:min(len(e.Versions), MaxCatalogVersions)]
	packed, err := e.Pack()
	return packed, true, err
}
