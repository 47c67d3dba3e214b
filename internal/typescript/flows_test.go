package typescript_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/manifest"
	"github.com/flowgen/flowgen/internal/typescript"
)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// packages contains two packages with the type name Order, names that are reserved in TypeScript,
// recursive types, and names that are invalid in TypeScript.
var packages = []*manifest.Manifest{
	{
		Package: "example.com/shop/orders",
		Workflows: map[string]*manifest.Workflow{
			"orders.fulfil": {Params: []manifest.Param{{Name: "order", Schema: raw(`{"$ref":"#/types/Order"}`)}, {Name: "in", Schema: raw(`{"type":"integer"}`)}}, Result: raw(`{"$ref":"#/types/example.com~1shop~1bills.Order"}`)},
			"orders.sweep":  {},
		},
		Declared: map[string]*manifest.Declaration{
			"topic verdict": {Schema: raw(`{"type":"boolean"}`)}, "hook paid": {Schema: raw(`{"type":"string"}`)}, "stream odd */ name": {Schema: raw(`{"$ref":"#/types/number"}`)},
			"ask price": {Schema: raw(`{"$ref":"#/types/Box[example.com~1shop~1bills.Order]"}`), Answer: raw(`{"type":["string","null"]}`)}, "value any": {Schema: raw(`{"x-custom":"MarshalJSON abc"}`)},
		},
		Types: map[string]json.RawMessage{
			"Order":                             raw(`{"type":"object","required":["id"],"properties":{"id":{"type":"string"},"parts":{"type":["array","null"],"items":{"$ref":"#/types/Order"}}}}`),
			"number":                            raw(`{"type":"object","required":["n"],"properties":{"n":{"type":"number"}}}`),
			"example.com/shop/bills.Order":      raw(`{"type":"object","required":["cents"],"properties":{"cents":{"type":"integer"}}}`),
			"Box[example.com/shop/bills.Order]": raw(`{"type":"object","required":["of"],"properties":{"of":{"$ref":"#/types/example.com~1shop~1bills.Order"}}}`),
			"Unused":                            raw(`{"type":"object","properties":{}}`),
			"Record":                            raw(`{"type":"object","required":["x"],"properties":{"x":{"type":"object"}}}`),
		},
	},
	{
		Package:   "example.com/shop/bills",
		Workflows: map[string]*manifest.Workflow{"bills.send": {Params: []manifest.Param{{Name: "order", Schema: raw(`{"anyOf":[{"$ref":"#/types/Order"},{"type":"null"}]}`)}}}},
		Declared:  map[string]*manifest.Declaration{"topic verdict": {Schema: raw(`{"type":"string"}`)}},
		Types:     map[string]json.RawMessage{"Order": raw(`{"type":"object","required":["cents"],"properties":{"cents":{"type":"integer"}}}`)},
	},
}

const wantFlows = `// Made by flowgen types. Do not edit.

/** What the workflows take and return, and what is sent to them and published by them, by the names that are stored. */
export interface Flows {
  workflows: {
    "bills.send": {
      input: {
        order: Bills_Order | null;
      };
      result: unknown;
    };
    "orders.fulfil": {
      input: {
        in: number;
        order: Orders_Order;
      };
      result: Bills_Order;
    };
    "orders.sweep": {
      input: undefined;
      result: unknown;
    };
  };
  topics: {
    verdict: boolean | string;
  };
  asks: {
    price: {
      question: Box_bills_Order;
      answer: string | null;
    };
  };
  values: {
    any: unknown;
  };
  streams: {
    "odd */ name": number_2;
  };
}

export interface Bills_Order {
  cents: number;
}

export interface Box_bills_Order {
  of: Bills_Order;
}

export interface Orders_Order {
  id: string;
  parts?: Orders_Order[] | null;
}

export interface number_2 {
  n: number;
}
`

func TestOPS3_FlowsAreTheTypesOfManifests(t *testing.T) {
	for _, order := range [][]*manifest.Manifest{{packages[0], packages[1]}, {packages[1], packages[0]}} {
		got, err := typescript.Flows(order)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wantFlows, string(got)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	empty, err := typescript.Flows(nil)
	if err != nil || string(empty) == "" {
		t.Errorf("of nothing: %s, %v", empty, err)
	}
	bad := &manifest.Manifest{Package: "p", Types: map[string]json.RawMessage{"T": raw(`{`)}}
	if _, err := typescript.Flows([]*manifest.Manifest{bad}); err == nil {
		t.Error("a schema that is none is no error")
	}
}
