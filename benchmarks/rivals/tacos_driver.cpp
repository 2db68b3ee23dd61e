// Prints every transfer of an all-gather that TACOS finds, as "microseconds source destination chunk", one a line.
//
// Input: ranks, chunks of a rank, bytes of a chunk, GiB/s, microseconds of a link, seed, number of links; then a pair of
// ranks for each link. All links are alike, so that whatever is on its way arrives at the next event.
// Build against TACOS 1.3.0 with -fno-access-control: its synthesizer returns the time alone.
#include <iostream>
#include <tacos/collective/all_gather.h>
#include <tacos/synthesizer/synthesizer.h>
#include <utility>
#include <vector>

struct Graph : tacos::Topology {
    Graph(int ranks, const std::vector<std::pair<int, int>>& links, double bandwidth, double latency) {
        setNpusCount_(ranks);
        for (const auto& [source, destination] : links) connect_(source, destination, bandwidth, latency, false);
    }
};

int main() {
    int ranks, pieces, count;
    long long bytes;
    unsigned seed;
    double bandwidth, latency;
    std::cin >> ranks >> pieces >> bytes >> bandwidth >> latency >> seed >> count;
    std::vector<std::pair<int, int>> links(count);
    for (auto& [source, destination] : links) std::cin >> source >> destination;
    const Graph graph(ranks, links, bandwidth, latency);
    const tacos::AllGather gather(ranks, pieces);
    tacos::Synthesizer tacos;
    tacos.randomEngine.seed(seed);
    tacos.initialize_(graph, gather, bytes);
    tacos.markPrecondition_();
    while (!tacos.eventQueue_.empty()) {
        tacos.currentTime_ = tacos.eventQueue_.pop();
        auto missing = tacos.filterPostcondition_();
        for (const auto& [source, destination] : links) {
            const int chunk = tacos.ten_->chunk(source, destination);
            if (chunk >= 0) std::cout << tacos.currentTime_ << ' ' << source << ' ' << destination << ' ' << chunk << '\n';
        }
        tacos.expandTenTimestep_(&missing);
        for (const auto& [chunk, rank] : tacos.shufflePostcondition_(missing)) tacos.linkChunkMatching_(chunk, rank);
    }
}
