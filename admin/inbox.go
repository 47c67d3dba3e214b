package admin

import "context"

// maxInbox bounds how many items of an inbox are told.
const maxInbox = 100

// Inbox has what was sent to a run that it has not taken yet.
type Inbox struct {
	Run   string      `json:"run"`
	Items []InboxItem `json:"items"` // those that it takes first, up to 100, in this order
	Total int         `json:"total"` // how many there are
}

// InboxItem is something that was sent to a run: a message, a request to cancel, the result of a child.
type InboxItem struct {
	Type    string   `json:"type"`           // of the event that it will be, as message_received
	Name    string   `json:"name,omitempty"` // such as a topic or a question
	Key     string   `json:"key,omitempty"`  // of what it is an answer to
	Payload Payload  `json:"payload,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	By      string   `json:"by,omitempty"`
}

// Inbox returns what was sent to a run that it has not taken yet, such as messages to one that is paused, blocked, or not served.
func (s *Service) Inbox(ctx context.Context, ref string) (Inbox, error) {
	ref, err := s.own(ctx, ref)
	if err != nil {
		return Inbox{}, err
	}
	in, err := s.inbox(ctx, ref)
	veil(s.who, &in)
	if !s.who.Role.Allows(RolePayloads) {
		for i := range in.Items {
			in.Items[i].Payload, in.Items[i].Failure = nil, withoutData(in.Items[i].Failure)
		}
	}
	return in, err
}

// inbox is [Service.Inbox] without the limits of the principal.
func (s *Service) inbox(ctx context.Context, ref string) (Inbox, error) {
	h, info, err := s.find(ctx, ref)
	if err != nil {
		return Inbox{}, err
	}
	got := Inbox{Run: string(info.ID), Items: []InboxItem{}}
	all, err := h.Inbox(ctx)
	if err != nil {
		return got, err
	}
	got.Total = len(all)
	for i := range all[:min(len(all), maxInbox)] {
		e := eventOf(&all[i])
		got.Items = append(got.Items, InboxItem{Type: e.Type, Name: e.Name, Key: e.Key, Payload: e.Payload, Failure: e.Failure, Reason: e.Reason, By: e.By})
	}
	return got, nil
}
