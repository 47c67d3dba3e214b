package workflow

import "github.com/flowgen/flowgen/runtime/internal/seam"

// Intercept lets a test kit stand between the worker and the steps: the worker
// calls what wrap returns for the name of a step, and for its implementation if
// there is one (else nil); nil says that the step is not known. It is called
// before the worker starts.
func (r *Registry) Intercept(_ seam.Gate, wrap func(name string, spec *StepSpec, impl StepFunc) StepFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrap = wrap
}

// Secrets lets a test kit make the tokens of hooks, so that they are the same each
// time: of 22 characters, from the run and the key of the operation. It is called
// before the worker starts.
func (r *Registry) Secrets(_ seam.Gate, secret func(run RunID, key string) string) { r.secret = secret }

// wrapped is called with the lock held; s is nil if the step is not known.
func (r *Registry) wrapped(name string, s *boundStep) StepFunc {
	if s == nil {
		return r.wrap(name, nil, nil)
	}
	return r.wrap(name, s.spec, s.call)
}
