package store

import (
	"fmt"
	"maps"
	"slices"
)

// Label is a workflow ID or a tag. An index finds the runs that have a label.
type Label struct {
	WorkflowID string // empty if the label is a tag
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

// Labels returns the labels that every run selected by the query has.
func (q *Query) Labels() []Label { return labels(q.WorkflowID, q.Tags) }

// labels returns the workflow ID first, then the tags ordered by name.
func labels(workflowID string, tags map[string]string) (all []Label) {
	if workflowID != "" {
		all = append(all, Label{WorkflowID: workflowID})
	}
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, Label{Tag: tag, Value: tags[tag]})
	}
	return all
}
