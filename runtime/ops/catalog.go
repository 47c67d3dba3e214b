package ops

import (
	"context"

	"github.com/flowgen/flowgen/runtime/store"
)

// CatalogEntry describes a workflow as its workers registered it. It contains the queue, the JSON
// Schemas of the input and the result, and the nodes of a struct annotated with //flow:dag. A
// missing input or result has a schema of type null. A schema is empty if the type is unknown.
type CatalogEntry = store.CatalogEntry

// CatalogQuery selects entries of the catalog.
type CatalogQuery = store.CatalogQuery

// Catalog returns the workflows that workers registered when they started, sorted by name. It
// includes steps that use limits. Such a step has no schemas and the name of the runs that execute
// it, see event.StepOfRun. Workers of earlier releases register nothing. The error matches
// workflow.ErrNotSupported if the store keeps no catalog.
func (c *Client) Catalog(ctx context.Context, q CatalogQuery) ([]CatalogEntry, error) {
	entries, err := capability[store.Entries](c, "read the catalogue")
	if err != nil {
		return nil, err
	}
	return store.Catalog(ctx, entries, q)
}

// Failure describes a failure group: runs that have failed, have a step that is being retried, or
// are blocked, for the same reason. Two reasons are the same if code, error types, step and message
// are equal. IDs, numbers, times and quoted text in messages are ignored. Line numbers are also
// ignored. workflow.RunInfo.Group is the group of a run.
type Failure = store.FailureGroup

// FailureKind is the kind of failure of a group.
type FailureKind = store.FailureKind

// The kinds of failure groups.
const (
	FailureFailed   = store.FailureKindFailed
	FailureRetrying = store.FailureKindRetrying
	FailureBlocked  = store.FailureKindBlocked
)

// FailureGroup is a failure group with two counts: the runs that have entered the group, and the
// runs that are in it.
type FailureGroup = store.FailureGroupInfo

// FailureFilter selects failure groups. The zero value selects all.
type FailureFilter = store.FailureGroupQuery

// FailurePage is one page of a list of failure groups.
type FailurePage = store.FailureGroupPage

// FailureGroups returns a page of the failure groups. The group that a run has entered last is
// first. A group is kept while a run is in it, and for 30 days after the last run entered it. A
// failed run stays in its group until it is purged or deleted. The error matches
// workflow.ErrNotSupported if the store keeps no groups.
func (c *Client) FailureGroups(ctx context.Context, f FailureFilter) (FailurePage, error) {
	groups, err := capability[store.FailureGroupLister](c, "list failure groups")
	if err != nil {
		return FailurePage{}, err
	}
	return groups.FailureGroups(ctx, f)
}
