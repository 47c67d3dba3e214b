package dag_ids

import "context"

//flow:dag
type research struct {
	Question string
}

//flow:step
func (research) plan(ctx context.Context) (string, error) { return "", nil }

//flow:step name=old.plan
func (research) outline(ctx context.Context, plan string) error { return nil }

//flow:step
func (research) in(ctx context.Context) error { return nil }

// The name of a step that is none of a graph.
//
//flow:step
func researchPlan(ctx context.Context) error { return nil }

type ResearchInput struct{}

//flow:dag name=dag_ids.research
type other struct{}

//flow:step
func (other) plan(ctx context.Context) error { return nil }
