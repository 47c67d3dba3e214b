package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

// HookMeta has what a hook says of itself to people and to programs that show it to them,
// such as a page with a form. The runtime keeps it and reads nothing in it: who may answer is
// for the endpoint to check that takes the answer.
type HookMeta struct {
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Form describes the payload, mostly as a JSON Schema. It is any JSON, and not checked
	// against the type of the hook.
	Form json.RawMessage `json:"form,omitempty"`
	// Answerers say who may answer: names of users or groups, as the program defines them.
	Answerers []string          `json:"answerers,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"` // anything else
}

// MaxHookMeta bounds the stored form of a [HookMeta], in bytes; its title, each who may answer,
// and each label have at most 1 KiB of them.
const MaxHookMeta = 64 << 10

// Describe opens a hook with a description for whoever has its token, see [Client.Hook], and for
// operators, see [Handle.Hooks]. It is recorded when the hook is opened and stays as it was:
// code that describes the hook otherwise finds its runs under way with the old description,
// and fits their logs.
func Describe(m HookMeta) HookOption { return func(o *hookOptions) { o.meta = &m } }

// hookRecord is the stored form of a description.
type hookRecord struct {
	HookMeta
	hookWeb
}

// encode returns the stored form; nil: there is nothing to say. The error is an *InvalidError.
func (m *HookMeta) encode(hook string, web hookWeb) ([]byte, error) {
	if m == nil {
		if !web.says() {
			return nil, nil
		}
		m = &HookMeta{}
	}
	what := func(part string) string { return part + " of hook " + hook }
	err := errors.Join(store.CheckName(what("title"), m.Title), store.CheckText(what("description"), m.Description, MaxHookMeta))
	for _, who := range m.Answerers {
		err = errors.Join(err, store.CheckName(what("answerer"), who))
	}
	for name, value := range m.Labels {
		err = errors.Join(err, store.CheckName(what("label"), name), store.CheckName(what("label "+name), value))
	}
	if len(m.Form) > 0 {
		if bad := validJSON(m.Form); bad != nil {
			err = errors.Join(err, &InvalidError{What: what("form"), Value: fmt.Sprintf("%.100q", m.Form), Reason: "cannot be kept: " + bad.Error()})
		}
	}
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(hookRecord{*m, web})
	switch {
	case err != nil:
		return nil, &InvalidError{What: what("description"), Value: m.Title, Reason: err.Error()}
	case len(data) > MaxHookMeta:
		return nil, &InvalidError{What: what("all metadata"), Value: m.Title, Reason: fmt.Sprintf("has %d bytes together, the limit is %d", len(data), MaxHookMeta)}
	case string(data) == "{}":
		return nil, nil
	}
	return data, nil
}

// HookInfo describes a hook as it is now.
type HookInfo struct {
	Hook   string // the name with which it was declared
	Token  string
	Run    RunID // that has opened it
	Closed bool  // nothing is accepted any more
	Meta   HookMeta
	// Respond is how long a request waits for an answer, see [RespondWith]; 0: it does not.
	Respond time.Duration
	// Request says that the hook takes requests as they are, see [HookRequest], and Headers which headers it keeps.
	Request bool
	Headers []string
	// Attempt is that of the step which has opened it, see step.Later, and Due when that times
	// out; 0: the code of the workflow has opened it.
	Attempt int
	Due     time.Time
	// ID, Key and OpenedAt are only set by [Handle.Hooks]: the id of the hook, or of the step that has
	// opened it, the key of the operation that has opened it, and when that was.
	ID       string
	Key      string
	OpenedAt time.Time
}

// Hook returns what a hook says of itself, to whoever has its token, until its run is deleted. Of
// a hook that is closed it says so. Errors: one that matches ErrHookNotFound, as for [Hook.Send]. An
// outage of the store is waited for; ctx limits how long.
func (c *Client) Hook(ctx context.Context, token string) (HookInfo, error) {
	h, err := c.openHook(ctx, token, 2)
	if err != nil {
		return HookInfo{}, fmt.Errorf("get hook: %w", err)
	}
	info := HookInfo{Hook: h.state.Name, Token: token, Run: h.run, Closed: h.closed || h.ended}
	if h.state.Step != nil {
		info.Attempt, info.Due = h.state.Step.Attempt, h.state.Step.Due
	}
	if err := info.describe(h.meta); err != nil {
		return info, fmt.Errorf("get hook of run %s: %w", h.run, err)
	}
	return info, nil
}

// describe takes in the stored form of a description.
func (i *HookInfo) describe(data []byte) error {
	r, err := decodeRecord(data)
	i.Meta, i.Respond, i.Request, i.Headers = r.HookMeta, r.respond(), r.Request, r.Keep
	return err
}

func decodeRecord(data []byte) (r hookRecord, err error) {
	if len(data) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("decode the description of a hook: %w: %w", err, event.ErrCorrupt)
	}
	return r, nil
}

// readHook reads the last chunks that say how the hook of a run stands; there is at least one.
func (c *Client) readHook(ctx context.Context, run RunID, token string, chunks int) (store.StreamPage, error) {
	r := &reader{c: c, run: run, what: "the state of a hook", stream: effects.HookStream(token)}
	page, err := r.page(ctx, store.ReadStream{Tail: chunks})
	switch {
	case errors.Is(err, ErrRunNotFound):
		return page, fmt.Errorf("run %s does not exist: %w", run, ErrHookNotFound)
	case err == nil && len(page.Chunks) == 0:
		return page, fmt.Errorf("run %s has no such token: %w", run, ErrHookNotFound)
	}
	return page, err
}
