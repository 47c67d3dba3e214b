package store

import (
	"fmt"
	"maps"
	"slices"
)

// Label is a workflow id or a tag: runs that have it in common are found by it.
type Label struct {
	WorkflowID string // empty: it is a tag
	Tag, Value string
}

// String names the label.
func (l Label) String() string {
	if l.WorkflowID != "" {
		return fmt.Sprintf("workflow id %q", l.WorkflowID)
	}
	return fmt.Sprintf("tag %q=%q", l.Tag, l.Value)
}

// Labels returns the labels of a run.
func (r *Record) Labels() []Label { return labels(r.WorkflowID, r.Tags) }

// Labels returns the labels that all runs have which the query selects.
func (q *Query) Labels() []Label { return labels(q.WorkflowID, q.Tags) }

// labels has the workflow id first, and then the tags by their names.
func labels(workflowID string, tags map[string]string) (all []Label) {
	if workflowID != "" {
		all = append(all, Label{WorkflowID: workflowID})
	}
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, Label{Tag: tag, Value: tags[tag]})
	}
	return all
}
