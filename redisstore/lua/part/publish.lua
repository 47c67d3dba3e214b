-- publish does to the streams of a chain what count publications say, one after the
-- other: ARGV holds from first on of each the stream, what is to be done (d to drop it,
-- b to append a body, c to close it), the body, how many chunks are kept or '0', and
-- the writer of the chunk and its number. It tells the followers, if there are any.
local function publish(chain, first, count, followed)
  local told = {}
  for i = first, first + 6 * count - 1, 6 do
    local name, what, body, keep, writer = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]), ARGV[i + 4]
    local chunks, writers = tag .. 'C:' .. chain .. ':' .. name, tag .. 'W:' .. chain .. ':' .. name
    local from, last, longest, closed = stream_at(chain, name)
    if not from or string.find(what, 'd') then
      redis.call('UNLINK', chunks, writers)
      redis.call('HDEL', tag .. 'S:' .. chain, name)
      from, last, longest, closed = nil, 0, 0, '0'
    end
    if string.find(what, 'b') and closed == '0' and not wrote(chain, name, writer, ARGV[i + 5]) then
      from, last, longest = from or 1, last + 1, math.max(longest, #body)
      redis.call('XADD', chunks, last .. '-0', 'f', body)
      if writer ~= '' then
        redis.call('HSET', writers, writer, ARGV[i + 5])
      end
    end
    if from and keep > 0 and last - from >= keep then
      from = last - keep + 1
      redis.call('XTRIM', chunks, 'MINID', from .. '-0')
    end
    if string.find(what, 'c') and closed == '0' then
      from, closed = from or 1, '1'
      if (last - from + 1) * longest <= 65536 and redis.call('COPY', chunks, tag .. 'y', 'REPLACE') == 1 then
        redis.call('RENAME', tag .. 'y', chunks) -- as in compact: it takes what it needs
      end
    end
    if from then
      redis.call('HSET', tag .. 'S:' .. chain, name, string.format('%.0f %.0f %.0f %s', from, last, longest, closed))
    end
    told[name] = closed == '0' and string.format('%.0f', last) or ''
  end
  for name, last in pairs(told) do
    if followed then
      redis.call('PUBLISH', tag .. 'stream:' .. chain, last .. ' ' .. name)
    end
  end
end
