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

// HookMeta is a description of a hook for people and for programs that present it, such as a page
// with a form. The runtime stores it without interpreting it: the endpoint that accepts payloads
// must check who may answer.
type HookMeta struct {
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Form describes the payload, usually as a JSON Schema. It is any JSON, and is not checked
	// against the type of the hook.
	Form json.RawMessage `json:"form,omitempty"`
	// Answerers lists who may answer: names of users or groups, as defined by the program.
	Answerers []string          `json:"answerers,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"` // any other data
}

// MaxHookMeta is the maximum size of the stored form of a [HookMeta], in bytes. Its title, each
// answerer and each label have at most 1 KiB.
const MaxHookMeta = 64 << 10

// Describe opens a hook with a description for holders of its token, see [Client.Hook], and for
// operators, see [Handle.Hooks]. The description is recorded when the hook is opened and does not
// change: code with another description remains compatible with open runs, whose hooks keep the old
// description.
func Describe(m HookMeta) HookOption { return func(o *hookOptions) { o.meta = &m } }

// hookRecord is the stored form of a description.
type hookRecord struct {
	HookMeta
	hookWeb
}

// encode returns the stored form, or nil if there is nothing to store. The error is an
// *InvalidError.
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

// HookInfo describes the current state of a hook.
type HookInfo struct {
	Hook   string // the declared name
	Token  string
	Run    RunID // the run that opened it
	Closed bool  // it accepts no more payloads
	Meta   HookMeta
	// Respond is how long a request waits for a response, see [RespondWith]; 0: it does not wait.
	Respond time.Duration
	// Request reports that the hook accepts whole requests, see [HookRequest]. Headers lists the
	// headers that it keeps.
	Request bool
	Headers []string
	// Attempt is the number of the attempt that opened the hook, see step.Later, and Due is when
	// that attempt times out. Attempt is 0 if workflow code opened the hook.
	Attempt int
	Due     time.Time
	// ID, Key and OpenedAt are set only by [Handle.Hooks]: the ID of the hook, or of the step that
	// opened it; the key of the operation that opened it; and the time when it was opened.
	ID       string
	Key      string
	OpenedAt time.Time
}

// Hook returns the description and state of the hook with this token, until its run is deleted. For
// a closed hook, Closed is set. Errors: one that matches ErrHookNotFound, as for [Hook.Send]. Hook
// waits out an outage of the store; ctx bounds the wait.
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

// describe sets the fields that come from the stored form of a description.
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

// readHook reads the last chunks of the state of a run's hook. On success there is at least one.
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
