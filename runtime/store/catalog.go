package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// CatalogSpace is the space of the entries of the workflow catalogue. A worker writes the
// descriptions of its workflows when it starts. Programs that have only the name of a workflow read
// them. The key of an entry is the name of the workflow. Runs write no entries.
const CatalogSpace = "catalog"

// describeTries is the maximum number of times that Describe tries to write an entry that is
// changed concurrently.
const describeTries = 100

// Describe records the description of a workflow by a build, with the current time of the clock of
// the store. It writes nothing if the entry already contains the description: see describeIn. It
// returns an *InvalidError if CheckCatalog refuses the description. It returns an error that
// matches ErrEntryChanged if the entry is changed concurrently during every attempt.
func Describe(ctx context.Context, s Entries, workflow string, v CatalogVersion) error {
	err := ErrEntryChanged
	for n := 0; n < describeTries && errors.Is(err, ErrEntryChanged); n++ {
		err = describe(ctx, s, workflow, v)
	}
	if err != nil {
		return fmt.Errorf("describe workflow %s: %w", workflow, err)
	}
	return nil
}

// describe replaces the entry only if it has not changed since it was read. Otherwise one of
// several workers that write at the same time would overwrite the description of another.
func describe(ctx context.Context, s Entries, workflow string, v CatalogVersion) error {
	found, err := s.Entries(ctx, entryOf(CatalogSpace, workflow))
	if err != nil {
		return err
	}
	var kept []byte
	if len(found) > 0 && found[0].Key == workflow {
		kept = found[0].Value
	}
	packed, changed, err := describeIn(kept, workflow, v, s.Clock().Now())
	if err != nil || !changed {
		return err
	}
	return s.WriteEntry(ctx, EntryWrite{Entry: Entry{CatalogSpace, workflow, packed}, Match: true, Old: kept})
}

// Catalog returns the entries of workflows, ordered by name. It omits entries that cannot be read.
func Catalog(ctx context.Context, s Entries, q CatalogQuery) ([]CatalogEntry, error) {
	found := []CatalogEntry{}
	entries := EntryQuery{Space: CatalogSpace, Limit: q.Limit}
	if q.After != "" {
		entries.From = afterKey(q.After)
	}
	if q.Workflow != "" {
		entries = entryOf(CatalogSpace, q.Workflow)
	}
	err := eachEntry(ctx, s, entries, func(e *Entry) bool {
		if q.Workflow != "" && e.Key != q.Workflow || e.Key <= q.After {
			return false
		}
		if c, err := unpackCatalog(e.Key, e.Value); err == nil {
			found = append(found, c)
		}
		return q.Workflow == "" && len(found) < entries.Max()
	})
	if err != nil {
		return nil, fmt.Errorf("read catalogue: %w", err)
	}
	return found, nil
}

// CatalogVersion is the description of a workflow by a build.
type CatalogVersion struct {
	Build  string          `json:"build"`            // newest build with this description
	At     time.Time       `json:"at"`               // time at which Build first reported the description, in whole milliseconds
	Queue  string          `json:"queue"`            // queue in the directive of the workflow
	Input  json.RawMessage `json:"input,omitempty"`  // JSON Schema of the stored input; empty if there is no input or no schema
	Output json.RawMessage `json:"output,omitempty"` // JSON Schema of the result; empty if there is none
	Limits []string        `json:"limits,omitempty"` // names of the limits that the runs use, sorted; empty if there are none or the build does not report them
	Graph  *CatalogGraph   `json:"graph,omitempty"`  // nil if only the runs determine the graph, or if the build does not report it
}

// Same reports whether two versions have the same description. It ignores Build and At.
func (v *CatalogVersion) Same(o *CatalogVersion) bool {
	return v.Queue == o.Queue && string(v.Input) == string(o.Input) && string(v.Output) == string(o.Output) && slices.Equal(v.Limits, o.Limits) && v.Graph.Same(o.Graph)
}

// CatalogEntry contains the descriptions of a workflow by its builds.
type CatalogEntry struct {
	Workflow string
	Versions []CatalogVersion // different descriptions, newest first; at least 1 and at most MaxCatalogVersions
}

// MaxCatalogVersions is the maximum number of descriptions of a workflow that are kept. Builds that
// are deployed at the same time may have different descriptions.
const MaxCatalogVersions = 4

// MaxCatalogSchema is the maximum size of a schema, in bytes.
const MaxCatalogSchema = 64 << 10

// CatalogQuery selects entries of the catalogue. The zero value selects the first 100.
type CatalogQuery struct {
	Workflow string // name of a workflow; empty selects all
	After    string // selects names greater than this one, in byte order
	Limit    int    // maximum number of entries; 100 if not positive
}

// CheckCatalog returns an *InvalidError for an invalid name, for more limits than a run may use,
// for a schema that is too long or not JSON, and for a graph that [CatalogGraph.Check] refuses.
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
			return &InvalidError{What: what, Value: string(schema), Reason: "is not JSON"}
		}
	}
	return v.Graph.Check()
}

// pack encodes the value of the entry. The value does not contain the name of the workflow, which
// is the key.
func (e *CatalogEntry) pack() ([]byte, error) { return json.Marshal(e.Versions) }

// unpackCatalog decodes the entry of a workflow. It returns an error if body is not the result of
// pack.
func unpackCatalog(workflow string, body []byte) (CatalogEntry, error) {
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

// describeIn adds description v to the entry of a workflow and returns the new value of the entry.
// It returns false if the entry does not change. kept is the stored value, or nil if there is none.
// A value that cannot be decoded is replaced, because every worker reports its descriptions when it
// starts.
//
// The entry contains each description only once. If a build reports a description that the entry
// contains for another build, the description gets the name of the reporting build and becomes the
// newest. A build that already has a description in the entry changes nothing by reporting it.
func describeIn(kept []byte, workflow string, v CatalogVersion, now time.Time) ([]byte, bool, error) {
	if err := CheckCatalog(workflow, &v); err != nil {
		return nil, false, err
	}
	for _, schema := range []*json.RawMessage{&v.Input, &v.Output} {
		if len(*schema) > 0 {
			*schema, _ = json.Marshal(*schema) // the stored form; CheckCatalog has verified that the schema is JSON
		}
	}
	e, err := unpackCatalog(workflow, kept)
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
	packed, err := e.pack()
	return packed, true, err
}
