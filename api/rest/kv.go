package rest

import (
	"encoding/json"
	"time"

	"github.com/thole-dev/thole/state/kv"
)

func kvOperations() []operation {
	const item, ns = "/v1/spaces/{space}/kv/{namespace}/{key...}", "/v1/spaces/{space}/kv/{namespace}"
	return []operation{
		{id: "listValues", method: "GET", path: ns, access: read, summary: "List the values of a namespace", does: does(listValues)},
		{id: "getValue", method: "GET", path: item, access: read,
			summary: "Read a value; an absent one has exists false", does: does(getValue)},
		{id: "putValue", method: "PUT", path: item, access: write, summary: "Set a value", does: does(putValue)},
		{id: "deleteValue", method: "DELETE", path: item, access: write, summary: "Delete a value", does: does(deleteValue)},
	}
}

type ofNamespace struct {
	Namespace string `path:"namespace" example:"settings"`
}

type ofValue struct {
	ofNamespace
	Key string `path:"key" doc:"may hold slashes" example:"theme"`
}

type listValuesIn struct {
	ofNamespace
	paging
	Prefix string `query:"prefix" doc:"only keys that begin with it" example:"t"`
}

func listValues(c *call, in listValuesIn) (page[kv.Entry], error) {
	return pageOf(kv.In(c.space).List(c.ctx, in.Namespace, &kv.ListOptions{Prefix: in.Prefix, After: in.Cursor, Limit: in.Limit}))
}

func getValue(c *call, in ofValue) (kv.Entry, error) {
	return kv.In(c.space).Get(c.ctx, in.Namespace, in.Key)
}

// NewValue is the body of a PUT of a value.
type NewValue struct {
	Data json.RawMessage `json:"data" doc:"any JSON" example:"\"dark\""`
}

type putValueIn struct {
	ofValue
	precondition
	TTL  int64 `query:"ttl" min:"1" max:"3162240000" doc:"seconds until it expires; without it, it stays"`
	Body NewValue
}

func putValue(c *call, in putValueIn) (kv.Entry, error) {
	when := in.condition()
	return kv.In(c.space).Set(c.ctx, in.Namespace, in.Key, in.Body.Data, &kv.SetOptions{
		TTL: time.Duration(in.TTL) * time.Second, IfMatch: when.At, IfExists: when.Exists, IfAbsent: when.Absent,
	})
}

type deleteValueIn struct {
	ofValue
	ifMatch
}

func deleteValue(c *call, in deleteValueIn) (none, error) {
	when := in.condition()
	_, err := kv.In(c.space).Delete(c.ctx, in.Namespace, in.Key, &kv.DeleteOptions{IfMatch: when.At, IfExists: when.Exists})
	return none{}, err
}
