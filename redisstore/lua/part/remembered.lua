-- remembers reports whether an item is remembered under the ID of a run until Confirm.
local function remembers(run)
  return (intact('ZCOUNT', tag .. 's:' .. run, kept, '+inf') or 0) > 0
end

-- unkeep removes one item that is remembered until Confirm.
local function unkeep(run, id)
  if tonumber(redis.call('ZSCORE', tag .. 's:' .. run, id) or 0) >= kept then
    redis.call('ZREM', tag .. 's:' .. run, id)
  end
end
