-- stream_at returns how a stream stands: the first chunk that is kept, the last one,
-- the bytes of the longest, and '1' if it is closed; nil: nobody has written to it.
local function stream_at(chain, name)
  local state = redis.call('HGET', tag .. 'S:' .. chain, name)
  if state then
    local first, last, longest, closed = string.match(state, '^(%d+) (%d+) (%d+) (%d)$')
    return tonumber(first), tonumber(last), tonumber(longest), closed
  end
end
