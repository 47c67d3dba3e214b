package flow

import "time"

// The limits of children.
const (
	// DefaultChildren is the maximum number of open children of one run. The directive of a
	// workflow may set another maximum with children=N.
	DefaultChildren = 10
	// MaxDepth is the maximum depth of a tree of runs.
	MaxDepth = 100
	// DefaultChildrenInAll is the maximum number of children that one run may start in total. If
	// children=N is larger, N is the maximum. A run that needs more children must continue as new.
	//
	// Each parent counts its children in its own log. There is no count for all runs below a root:
	// the runs of a tree may be in any partition, so each parent would have to reserve from a count
	// in the partition of the root before it starts a child. That would cost one more round trip
	// for each child, and a protocol that survives lost writes on either side. The limit exists so
	// that no log and no outbox grows without bound, for which a limit per parent is sufficient.
	// This limit and MaxDepth bound the size of a tree.
	DefaultChildrenInAll = 1000
)

// DefaultAttemptTimeout is the time limit of an attempt of a step that sets no other.
const DefaultAttemptTimeout = 10 * time.Minute

// MaxName is the maximum length of the names of values, streams, asks, hooks and schedules, and of
// tokens, in bytes.
const MaxName = 200

// MaxHookMeta is the maximum size of the stored form of a workflow.HookMeta, in bytes. Its title,
// each answerer and each label have at most 1 KiB.
const MaxHookMeta = 64 << 10

// MaxRespond is the maximum duration for workflow.RespondWith.
const MaxRespond = 30 * time.Second
