package signature_method

import "github.com/flowgen/flowgen/runtime/workflow"

type shop struct{}

//flow:workflow
func (s *shop) sell(ctx workflow.Context, id string) error { return nil }
