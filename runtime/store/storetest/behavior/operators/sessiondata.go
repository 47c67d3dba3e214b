package operators

import (
	"bytes"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

func (h *harness) setSessionData(s store.SessionID, body string) error {
	d, _ := store.As[store.SessionDataStore](h.Store)
	return d.SetSessionData(h.Ctx, 0, s, []byte(body))
}

// sessionData returns the data of the sessions of partition 0, without their leases.
func (h *harness) sessionData() map[store.SessionID]string {
	h.Helper()
	d, _ := store.As[store.SessionDataStore](h.Store)
	all, err := d.SessionData(h.Ctx, 0)
	h.Check("session data", err)
	if !slices.IsSortedFunc(all, func(a, b store.SessionData) int { return bytes.Compare([]byte(a.Session), []byte(b.Session)) }) {
		h.Errorf("session data: got %+v, want the order of the IDs", all)
	}
	got := map[store.SessionID]string{}
	for _, one := range all {
		got[one.Session] = string(one.Body)
	}
	return got
}

var sessionDataBehaviors = []behavior{
	{"OPS4_SessionDataAreKeptBySession", func(h *harness) {
		a, b := h.Session(suite.Orders), h.Session(suite.Orders)
		h.Session(suite.Orders)
		h.Equal("data of sessions without any", h.sessionData(), map[store.SessionID]string{})
		h.Check("set session data", h.setSessionData(a, "1"))
		h.Check("set session data", h.setSessionData(b, "\x00\xff"))
		h.Check("replace session data", h.setSessionData(a, "2"))
		h.Heartbeat(a)
		h.Equal("data after a heartbeat", h.sessionData(), map[store.SessionID]string{a: "2", b: "\x00\xff"})
		h.Check("remove session data", h.setSessionData(a, ""))
		h.Check("remove session data again", h.setSessionData(a, ""))
		h.Equal("data after the removal", h.sessionData(), map[store.SessionID]string{b: "\x00\xff"})
	}},
	{"OPS4_SessionDataHaveTheLeaseOfTheirSession", func(h *harness) {
		s := store.Session{ID: h.IDs.Session(), Worker: "host/2", TTL: suite.TTL, Routes: []store.Route{suite.Orders}, Fingerprint: "v7"}
		h.Check("open session", h.Store.OpenSession(h.Ctx, s))
		opened := h.Clock.Now()
		h.Clock.Advance(time.Second)
		h.Check("set session data", h.setSessionData(s.ID, "1")) // it does not renew the lease
		d, _ := store.As[store.SessionDataStore](h.Store)
		all, err := d.SessionData(h.Ctx, 0)
		h.Check("session data", err)
		h.Equal("session data", all, []store.SessionData{
			{Lease: store.Lease{Session: s.ID, Worker: "host/2", Fingerprint: "v7", Expires: opened.Add(suite.TTL), TTL: suite.TTL}, Body: []byte("1")},
		})
	}},
	{"OPS4_SessionDataEndWithTheSession", func(h *harness) {
		closed, dead := h.Session(suite.Orders), h.Session(suite.Orders)
		h.Check("set session data", h.setSessionData(closed, "1"))
		h.Check("set session data", h.setSessionData(dead, "2"))
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, closed))
		h.Equal("data after the end of a session", h.sessionData(), map[store.SessionID]string{dead: "2"})
		h.StartOwned(dead)
		h.RecoverDead(h.Session(suite.Orders))
		h.Equal("data after the recovery of a session", h.sessionData(), map[store.SessionID]string{})
		for what, s := range map[string]store.SessionID{"a closed session": closed, "a recovered session": dead, "an unknown session": "nobody"} {
			h.Unchanged(what, func() { h.Is(what, h.setSessionData(s, "3"), store.ErrExpired) })
		}
		h.Equal("data after refused writes", h.sessionData(), map[store.SessionID]string{})
		again := store.Session{ID: closed, Worker: "host/1", TTL: suite.TTL}
		h.Check("open a session with the ID of a closed one", h.Store.OpenSession(h.Ctx, again))
		h.Equal("data of a session whose ID was used before", h.sessionData(), map[store.SessionID]string{})
	}},
	{"OPS4_SessionDataAreBounded", func(h *harness) {
		s := h.Session(suite.Orders)
		body := string(bytes.Repeat([]byte("x"), store.MaxSessionData))
		h.Check("set session data of the maximum size", h.setSessionData(s, body))
		suite.IsA[*store.InvalidError](h.Harness, "larger session data", h.setSessionData(s, body+"x"))
		h.Equal("data", h.sessionData(), map[store.SessionID]string{s: body})
	}},
}
